"""From what is wanted to what may be done now, and which pods come and go meanwhile."""
