"""The duration of one tick of the decision core for one pool, on the histories that cost most."""
