"""A pull request that tightens an SLO, from a branch to the running pool."""
