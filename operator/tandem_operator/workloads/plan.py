"""One tick of one pool as a value: what to apply, to write, to prune and to tell.

`plan(world, *, now_s) -> Plan` is pure and total: same world and time, same plan, for any pool an
API server can hold. `conclude(plan, outcome, *, world, now_s) -> Plan` then amends status and Events
by what became of the writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tandem_operator.core.decision import Decision
from tandem_operator.core.role import Role
from tandem_operator.workloads.world import Object

MANAGER = "tandem"
REPLICAS_MANAGER = "tandem-replicas"
STATUS_MANAGER = "tandem-status"


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
class PodCost:
    """A pod-deletion-cost annotation to write before a shrink; the cheapest pod goes first."""

    pod: str
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Fields of one child that another field manager holds, as the API server's 409 names them."""

    kind: str
    name: str
    managers: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a plan's writes.

    Attributes:
        refused: why the API server refused an object in the dry run (nothing was touched then).
        conflicts: fields that were left to their owner.
        forced: fields that were taken back, by contract ours.
    """

    refused: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    forced: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one tick does. The edge executes it top to bottom, then calls `conclude`.

    Attributes:
        apply: children that are not in force yet, in order, for field manager `tandem`; all of
            them pass a dry run before the first is applied.
        costs: pod-deletion-cost annotations, written before `replicas`.
        replicas: Deployments with nothing but `spec.replicas`, for manager `tandem-replicas`.
            A role that is External, Paused or Recommend is not among them.
        prune: live children that no longer belong.
        memory_object: the ConfigMap of the memory when it is due, for manager `tandem`.
        status: the whole status, for manager `tandem-status`; `None` when nothing changed.
        memory: to be handed back in the next `World`.
        decision: `None` where the spec cannot be acted on.
    """

    apply: tuple[Object, ...] = ()
    costs: tuple[PodCost, ...] = ()
    replicas: tuple[Object, ...] = ()
    prune: tuple[Object, ...] = ()
    memory_object: Object | None = None
    status: Mapping[str, Any] | None = None
    events: tuple[Event, ...] = ()
    memory: Any = None
    decision: Decision | None = None
    requeue_after_s: float = 10.0
    desired: Mapping[Role, int] | None = None
