"""A request on its way through prefill and decode, and its answer on the way back."""
