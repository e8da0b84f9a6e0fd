"""The requests of users: read, recorded or generated."""
