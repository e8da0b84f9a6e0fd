"""The answers that clients get from a pool, field by field beside those of plain vLLM."""
