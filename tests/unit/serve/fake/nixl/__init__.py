"""Stands for NIXL, which only vLLM itself imports."""
