"""The desired objects of a pool."""
