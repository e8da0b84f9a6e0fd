"""What is seen of a pool: what is fresh, what arrived, which pods count, what the caches serve."""
