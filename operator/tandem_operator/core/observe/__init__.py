"""The state of a pool: fresh data, arrivals, pods that count, and cached prompt tokens."""
