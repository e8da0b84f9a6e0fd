"""The effects of a plan besides objects, and the results that the edge reports."""

from dataclasses import dataclass
from enum import StrEnum


class EventType(StrEnum):
    """The two types of Kubernetes Events."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One piece of news about the pool."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """The result of a plan's writes, each part a sentence for people.

    Attributes:
        refused: why the API server refused an object in the dry run; nothing was touched then.
        blocked: the owner of an object with one of our names, or of fields that cannot be separated
            from ours; nothing was touched then.
        taken: fields that are ours by contract and were taken back, with their former managers.
        left: fields that another manager keeps; everything else is in force.
        rekeyed: whether the key of the engines was created again while pods ran with the old one.
        unstored: why the API server refused the memory, in its words; everything else is in force.
        route_fault: why the HTTPRoute was not written; everything else is in force.
        route_written: whether the HTTPRoute was written.
    """

    refused: str | None = None
    blocked: str | None = None
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    rekeyed: bool = False
    unstored: str | None = None
    route_fault: str | None = None
    route_written: bool = False
