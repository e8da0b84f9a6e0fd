"""Learned models of engines: laws from measured times, first guesses, and later corrections."""
