"""Tandem's own decision core in NVIDIA's replay simulator, beside NVIDIA's planner."""
