"""The queue in front of the pool, and where a request goes from it."""
