"""Prefix placement with real engines on loopback: what vLLM itself computes of the prompts."""
