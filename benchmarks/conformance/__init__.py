"""What clients get from a pool, field by field beside what plain vLLM gives them."""
