"""The replicas that keep the bounds at a rate, and the cheapest pair of counts."""
