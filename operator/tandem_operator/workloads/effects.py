"""What a plan leaves to the edge besides objects, and what the edge tells back."""

from dataclasses import dataclass
from enum import StrEnum


class EventType(StrEnum):
    """The two types of Kubernetes Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling once, about the pool."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """What became of a plan's writes, each part a sentence for people.

    Attributes:
        refused: why the API server refused an object in the dry run; nothing was touched then.
        blocked: whose object has the name of one of ours, or whose fields cannot be told apart from
            ours; nothing was touched then.
        taken: which fields were taken back from whom, being ours by contract.
        left: which fields another manager keeps; all else is in force.
        rekeyed: whether the key of the engines was made anew while pods ran with the one before.
        unstored: the API server's words on why it does not take the memory; all else is in force.
        route_fault: why the HTTPRoute was not written; all else is in force.
        route_written: whether it was.
    """

    refused: str | None = None
    blocked: str | None = None
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    rekeyed: bool = False
    unstored: str | None = None
    route_fault: str | None = None
    route_written: bool = False
