"""Tandem's data plane: the role-aware engine launcher and the P/D-aware router."""
