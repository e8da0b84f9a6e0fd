"""Tandem's Kubernetes operator: decides, explains and applies the size of each fleet."""
