"""The path of a request through prefill and decode, and of its answer back."""
