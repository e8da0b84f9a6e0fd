"""Runs of a case, and what is asked of several runs."""
