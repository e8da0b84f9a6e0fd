"""What the decisions of `core/forecast` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForecastTuning:
    """The numbers of `core/forecast`. Each says its unit, what it means, and where it is from."""
