"""How fast prefill and decode pods work."""
