"""What is wrong with a pool or with a cluster, and what to do about it: pure."""
