"""Is the simulator right? The same static fleets in ours and in NVIDIA's replay, side by side."""
