"""Asks pods what they are, and decode pods what they measured."""
