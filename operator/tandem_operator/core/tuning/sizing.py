"""What the decisions of `core/sizing` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizingTuning:
    """The numbers of `core/sizing`. Each says its unit, what it means, and where it is from."""
