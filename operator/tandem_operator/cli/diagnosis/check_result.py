"""One line of a diagnosis: what was looked at, how it stands, and what to do."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.cli.input.cluster_facts import Topic


class CheckState(StrEnum):
    """How a thing stands."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """It could not be looked at."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found.

    Attributes:
        remedy: what to do; empty where there is nothing to do.
    """

    topic: Topic
    state: CheckState
    sentence: str
    remedy: str = ""


def ok(topic: Topic, sentence: str) -> CheckResult:
    """All is well."""
    return CheckResult(topic, CheckState.OK, sentence)


def note(topic: Topic, sentence: str, remedy: str = "") -> CheckResult:
    """Worth knowing."""
    return CheckResult(topic, CheckState.NOTE, sentence, remedy)


def problem(topic: Topic, sentence: str, remedy: str) -> CheckResult:
    """Something is wrong or missing."""
    return CheckResult(topic, CheckState.PROBLEM, sentence, remedy)


def unknown(topic: Topic, why: str) -> CheckResult:
    """It could not be looked at."""
    return CheckResult(
        topic,
        CheckState.UNKNOWN,
        f"cannot be read: {why}",
        "Ask an administrator to run `tandem doctor`, or to grant you the right that is named. With"
        " -n, `tandem doctor` needs rights in one namespace only.",
    )
