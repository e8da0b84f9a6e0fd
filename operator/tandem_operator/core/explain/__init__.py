"""A tick in sentences and numbers."""
