"""The router of a pool: an OpenAI-compatible proxy that pairs prefill with decode pods."""
