"""The queue in front of the pool, and the placement of requests from it."""
