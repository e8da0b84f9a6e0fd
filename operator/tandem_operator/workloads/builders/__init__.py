"""The objects of a pool as they should be."""
