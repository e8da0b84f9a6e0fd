"""What the decisions of `core/observe` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveTuning:
    """The numbers of `core/observe`. Each says its unit, what it means, and where it is from."""
