"""The cost of the router: time added to TTFT, and tokens per second of one core."""
