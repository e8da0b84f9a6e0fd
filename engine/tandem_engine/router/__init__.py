"""The pool's front door: an OpenAI-compatible proxy that pairs prefill with decode pods."""
