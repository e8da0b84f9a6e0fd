"""Is the attainment objective held on traffic of many kinds, and at what cost."""
