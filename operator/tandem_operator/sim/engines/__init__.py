"""The speed of prefill and decode pods."""
