"""Counts and reports: for the operator, for Prometheus, and for records."""
