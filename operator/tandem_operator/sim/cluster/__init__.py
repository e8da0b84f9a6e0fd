"""Time and pods of a simulation, and their faults."""
