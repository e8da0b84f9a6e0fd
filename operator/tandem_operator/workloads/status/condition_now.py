"""The content of one condition, before it has a time and a generation."""

from dataclasses import dataclass

from tandem_operator.api import ConditionType

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
BAD_WHEN_TRUE = frozenset(
    {ConditionType.CAPACITY_BLOCKED, ConditionType.FIELD_CONFLICT, ConditionType.STALLED}
)
NEVER_BAD = frozenset({ConditionType.RECONCILING})
"""Conditions of work in progress; `Ready` shows faults during that time."""
FIELDS_OVERRIDDEN, MEMORY_REFUSED = "FieldsOverridden", "MemoryRefused"
FIELDS_UNKNOWN = "FieldsUnknown"
AUTOSCALER_WAITS = "AutoscalerWaits"
"""A reason of `ScalingActive`: an autoscaler has no target, because the role is Managed."""
BAD_THOUGH_ACCEPTED = frozenset({FIELDS_OVERRIDDEN, FIELDS_UNKNOWN, MEMORY_REFUSED})


@dataclass(frozen=True, slots=True)
class ConditionNow:
    """The present content of one condition."""

    type: ConditionType
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Statement:
    """The reason for a state: a word for programs and a sentence for people."""

    reason: str
    message: str

    def makes(self, kind: ConditionType, status: str) -> ConditionNow:
        """Return the condition with this reason and sentence."""
        return ConditionNow(kind, status, self.reason, self.message)


def joined(words: list[str]) -> str:
    """Return the words as an enumeration."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
