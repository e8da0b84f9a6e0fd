"""One tick of one pool as a value: what to apply, to write, to prune and to tell.

`plan(world, *, now_s) -> Plan` is pure and total: same world and time, same plan, for any pool that
an API server can hold. `conclude(plan, outcome, *, world, now_s) -> Plan` then amends status and
Events by what became of the writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tandem_operator.core.decision import Decision
from tandem_operator.core.role import Role
from tandem_operator.workloads.world import Object


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
class Outcome:
    """What became of a plan's writes, each part a sentence for people.

    Attributes:
        refused: why the API server refused an object in the dry run; nothing was touched then.
        blocked: whose fields stood in the way, not ours to take; nothing was touched then.
        taken: which fields were taken back from whom, being ours by contract.
    """

    refused: str | None = None
    blocked: str | None = None
    taken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one tick does. The edge executes it top to bottom, then calls `conclude`.

    Attributes:
        children: every child as it should be, in the order of creation, for manager `tandem`.
        costs: pod-deletion-cost annotations that differ from the live ones, before `replicas`.
        replicas: `spec.replicas` of Deployments by role, for manager `tandem-replicas`. A role that
            is External, Paused or Recommend is not in it; a new Deployment's role always is, unless
            External, so it must be created first.
        keep: kind and name of all that belongs to the pool; its other children are pruned.
        memory_object: the ConfigMap of the memory when it is due, for manager `tandem`.
        status: the whole status, for manager `tandem-status`; `None` when nothing changed.
        memory: to be handed back in the next `World`.
        decision: `None` where the spec cannot be acted on; `children` is empty then, and nothing
            is pruned.
    """

    children: tuple[Object, ...] = ()
    costs: tuple[PodCost, ...] = ()
    replicas: Mapping[Role, int] = field(default_factory=dict)
    keep: frozenset[tuple[str, str]] | None = None
    memory_object: Object | None = None
    status: Mapping[str, Any] | None = None
    events: tuple[Event, ...] = ()
    memory: Any = None
    decision: Decision | None = None
    requeue_after_s: float = 10.0
