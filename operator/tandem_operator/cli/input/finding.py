"""One finding of `tandem lint`."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The effect of a finding: whether a pool like this would run."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to change.

    Attributes:
        field: its path in the object: `spec.slo.ttft.target`.
    """

    file: str
    line: int
    field: str
    sentence: str
    severity: Severity = Severity.ERROR
