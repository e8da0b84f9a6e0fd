"""All chosen numbers that change decisions: one frozen record, passed down from `decide`."""
