"""How good the first guess of an engine is, and where the numbers that ship come from."""
