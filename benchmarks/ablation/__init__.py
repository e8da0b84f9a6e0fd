"""What each step of the decision is worth: the core without it, on every trace of the fight."""
