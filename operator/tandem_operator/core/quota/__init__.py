"""What pools of one namespace share."""
