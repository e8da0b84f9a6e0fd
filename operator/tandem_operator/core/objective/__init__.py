"""The objective as an error budget, and the insurance against what comes back."""
