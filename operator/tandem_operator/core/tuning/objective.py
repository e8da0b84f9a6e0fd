"""What the decisions of `core/objective` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectiveTuning:
    """The numbers of `core/objective`. Each says its unit, what it means, and where it is from."""
