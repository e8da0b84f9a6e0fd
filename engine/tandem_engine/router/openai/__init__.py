"""What clients send and get: checked, kept as bytes, and put together."""
