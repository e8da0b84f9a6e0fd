"""What clients lose when a part of a serving pool is taken away, measured."""
