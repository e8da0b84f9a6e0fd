"""Probes of pods, and reads of the metrics of decode pods."""
