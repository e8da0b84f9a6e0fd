"""What is said of one condition, before it has a time and a generation."""

from dataclasses import dataclass

from tandem_operator.api import ConditionType

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
BAD_WHEN_TRUE = frozenset(
    {ConditionType.CAPACITY_BLOCKED, ConditionType.FIELD_CONFLICT, ConditionType.STALLED}
)
NEVER_BAD = frozenset({ConditionType.RECONCILING})
"""Work that goes on: `Ready` says what is amiss meanwhile."""
FIELDS_OVERRIDDEN, MEMORY_REFUSED = "FieldsOverridden", "MemoryRefused"
FIELDS_UNKNOWN = "FieldsUnknown"
AUTOSCALER_WAITS = "AutoscalerWaits"
"""Of `ScalingActive`: an autoscaler has no target, since the role is Managed."""
BAD_THOUGH_ACCEPTED = frozenset({FIELDS_OVERRIDDEN, FIELDS_UNKNOWN, MEMORY_REFUSED})


@dataclass(frozen=True, slots=True)
class ConditionNow:
    """What is said of one condition now."""

    type: ConditionType
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Statement:
    """Why something is as it is: a word for programs and a sentence for people."""

    reason: str
    message: str

    def makes(self, kind: ConditionType, status: str) -> ConditionNow:
        """The condition that says this."""
        return ConditionNow(kind, status, self.reason, self.message)


def joined(words: list[str]) -> str:
    """The words as an enumeration."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
