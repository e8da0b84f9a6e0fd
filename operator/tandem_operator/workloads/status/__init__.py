"""The reports of a pool: its conditions, its status and its Events."""
