"""A real kind cluster on this machine, with or without a container registry.

Only the standard library is used here: this code runs before any virtual environment exists.
"""
