"""One line of a diagnosis: the thing that was checked, its state, and the remedy."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_operator.cli.input.cluster_facts import Topic


class CheckState(StrEnum):
    """The state of a thing that was checked."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing has to be done."""
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """The check was not possible."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Attributes:
        remedy: the thing to do; empty if there is nothing to do.
    """

    topic: Topic
    state: CheckState
    sentence: str
    remedy: str = ""


def ok(topic: Topic, sentence: str) -> CheckResult:
    """Return the result of a thing that is well."""
    return CheckResult(topic, CheckState.OK, sentence)


def note(topic: Topic, sentence: str, remedy: str = "") -> CheckResult:
    """Return the result of a thing that is worth knowing."""
    return CheckResult(topic, CheckState.NOTE, sentence, remedy)


def problem(topic: Topic, sentence: str, remedy: str) -> CheckResult:
    """Return the result of a thing that is wrong or missing."""
    return CheckResult(topic, CheckState.PROBLEM, sentence, remedy)


def unknown(topic: Topic, why: str) -> CheckResult:
    """Return the result of a check that was not possible."""
    return CheckResult(
        topic,
        CheckState.UNKNOWN,
        f"cannot be read: {why}",
        "Ask an administrator to run `tandem doctor`, or to grant you the right that is named. With"
        " -n, `tandem doctor` needs rights in one namespace only.",
    )
