"""The engine pods, what became of their work, and which of them get none."""
