"""The objective as an error budget, and the insurance against recurring bursts."""
