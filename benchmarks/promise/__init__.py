"""The promise of an attainment objective: whether traffic of many kinds keeps it, at what cost."""
