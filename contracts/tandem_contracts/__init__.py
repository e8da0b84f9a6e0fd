"""The data that parts of Tandem exchange, defined once for writers and readers."""
