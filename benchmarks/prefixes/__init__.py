"""The gain of placing prompts by what prefill pods have cached."""
