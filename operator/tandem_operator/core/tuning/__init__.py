"""All numbers that decide and that somebody chose: one frozen record, passed down from `decide`."""
