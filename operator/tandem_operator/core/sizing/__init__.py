"""How many replicas keep the bounds at a rate, and which counts are cheapest."""
