"""What the router costs: time added to TTFT, and tokens per second of one core."""
