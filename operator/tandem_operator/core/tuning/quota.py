"""What the decisions of `core/quota` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaTuning:
    """The numbers of `core/quota`. Each says its unit, what it means, and where it is from."""
