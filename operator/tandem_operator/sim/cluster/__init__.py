"""Time, pods and what goes wrong with them."""
