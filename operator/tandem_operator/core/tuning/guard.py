"""What the decisions of `core/guard` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardTuning:
    """The numbers of `core/guard`. Each says its unit, what it means, and where it is from."""
