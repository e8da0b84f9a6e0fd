"""From the desired counts to the counts that may be set now, and the order of pods meanwhile."""
