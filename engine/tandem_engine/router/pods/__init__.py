"""The engine pods, the results of their work, and the ejection of pods."""
