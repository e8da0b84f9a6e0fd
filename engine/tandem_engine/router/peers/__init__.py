"""The other routers of the pool, and their messages about requests that end engines."""
