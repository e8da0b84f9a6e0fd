"""Faults of a pool that its schema does not find."""
