"""The live router's policy in virtual time."""
