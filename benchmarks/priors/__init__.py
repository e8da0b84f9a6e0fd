"""The quality of the first guess of an engine, and the origin of the numbers that ship."""
