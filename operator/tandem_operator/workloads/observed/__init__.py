"""The state of a pool in its live objects."""
