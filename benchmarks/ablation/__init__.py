"""The worth of each step of the decision: the core without it, on every trace of the fight."""
