"""The faults of a pool or of a cluster, and their remedies. Pure."""
