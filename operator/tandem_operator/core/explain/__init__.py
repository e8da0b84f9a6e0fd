"""The sentences and numbers of a tick."""
