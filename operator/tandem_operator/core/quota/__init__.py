"""The quota that pools of one namespace share."""
