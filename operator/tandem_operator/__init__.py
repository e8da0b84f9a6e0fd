"""Tandem's Kubernetes operator: decides, explains and applies the size of prefill and decode fleets."""
