"""What real engines cost on real hardware, and how near first guesses and the simulator come."""
