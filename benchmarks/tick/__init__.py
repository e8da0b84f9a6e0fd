"""How long one tick of the decision core takes for one pool, on the histories that cost most."""
