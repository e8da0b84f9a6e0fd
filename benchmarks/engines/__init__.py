"""The cost of real engines on real hardware, and the errors of first guesses and the simulator."""
