"""`make demo`: from nothing to a served pool that sizes both of its fleets, on this machine."""
