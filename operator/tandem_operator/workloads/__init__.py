"""Pure functions from a pool, its observed state and a decision to objects, status and Events."""
