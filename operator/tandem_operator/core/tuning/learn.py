"""What the decisions of `core/learn` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearnTuning:
    """The numbers of `core/learn`. Each says its unit, what it means, and where it is from."""
