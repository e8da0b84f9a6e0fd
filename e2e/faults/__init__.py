"""The measured losses of clients when a part of a serving pool is taken away."""
