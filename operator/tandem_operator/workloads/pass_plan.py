"""One tick of one pool as a value: objects to apply, counts to write, objects to prune, and news.

The functions are pure and total. The same world and time give the same plan, for any pool that an
API server can hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from tandem_operator.api import (
    ROLE_KIND,
    PoolStatus,
    parse_status,
)
from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.guard.rollout import next_steps, with_reserve
from tandem_operator.core.guard.router_count import RouterCount, count_routers
from tandem_operator.core.memory import Memory
from tandem_operator.core.quota.allocate import Claim
from tandem_operator.workloads.builders.children import children_of
from tandem_operator.workloads.builders.config_maps import memory_map
from tandem_operator.workloads.builders.engine_key import rekeyed_sentence
from tandem_operator.workloads.builders.gateway_route import gateway_route, kept_routes
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.checks.pod_schema import explained, without_effect
from tandem_operator.workloads.effects import Event, EventType, WriteOutcome
from tandem_operator.workloads.observed.deletion_cost import PodCost, deletion_costs
from tandem_operator.workloads.observed.live_objects import see
from tandem_operator.workloads.observed.turnover import turnovers
from tandem_operator.workloads.pass_basis import PassBasis, read_pool
from tandem_operator.workloads.pass_counts import (
    decided_counts,
    keeping_last,
    mirrored_counts,
)
from tandem_operator.workloads.pool_names import ROUTER, PoolName, key_of
from tandem_operator.workloads.pool_spec import external_roles
from tandem_operator.workloads.status.pool_events import (
    KEY_REPLACED,
    MEMORY_UNREADABLE,
    events_of,
    routers_scaled,
)
from tandem_operator.workloads.status.pool_facts import PoolFacts
from tandem_operator.workloads.status.pool_role_status import RoleReport, role_reports
from tandem_operator.workloads.status.pool_status import rejected_status, status_changed, status_of
from tandem_operator.workloads.status.route_condition import route_facts
from tandem_operator.workloads.stored_memory import (
    MemoryFormatError,
    is_due,
    memory_to_json,
    stored_memory,
)
from tandem_operator.workloads.world import Object, World

__all__ = [
    "Event",
    "EventType",
    "PassPlan",
    "PodCost",
    "WriteOutcome",
    "conclude",
    "plan",
]

REJECTED_REQUEUE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """The actions of one tick. The edge executes them top to bottom, then calls `conclude`.

    Attributes:
        children: every child as it should be, in the order of creation, for manager `tandem`.
        route: the HTTPRoute, separately: if a cluster refuses it, the pool loses nothing else.
        costs: pod-deletion-cost annotations that differ from the live ones, before `replicas`.
        replicas: `spec.replicas` of Deployments by component, for manager `tandem-replicas`. Roles
            that are External, Paused or Recommend are absent, except the count that the PoolRole
            of an External role asks for. A new Deployment's count is present unless the role is
            External, so the Deployment must be created first.
        mirrored: `spec.replicas` of PoolRoles that no client has scaled yet, by role, for manager
            `tandem-replicas`.
        keep: kind and name of every child that the pool should have; other children are pruned.
            `None`: prune nothing.
        memory_object: the ConfigMap of the memory when it is due, for manager `tandem`.
        status: the whole status, for manager `tandem-status`; `None` when nothing changed.
        roles: the changed status of each PoolRole, for manager `tandem-status`.
        memory: the memory for the next `World`.
        unreadable: why the memory could not be used, if so; the pool then starts without memory.
        routers: the desired number of routers, and why.
        decision: `None` if the spec cannot be run; running objects then stay as they are.
        basis: the input of the plan, for `conclude`.
    """

    children: tuple[Object, ...] = ()
    route: Object | None = None
    costs: tuple[PodCost, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)
    mirrored: Mapping[str, int] = field(default_factory=dict)
    keep: frozenset[tuple[str, str]] | None = None
    memory_object: Object | None = None
    status: Mapping[str, Any] | None = None
    events: tuple[Event, ...] = ()
    roles: tuple[RoleReport, ...] = ()
    memory: Any = None
    unreadable: MemoryFormatError | None = field(default=None, compare=False)
    decision: Decision | None = None
    routers: RouterCount | None = None
    requeue_after_s: float = REJECTED_REQUEUE_S
    basis: PassBasis | None = field(default=None, compare=False, repr=False)

    @property
    def gpus_held(self) -> int:
        """Return the GPUs of engine pods that have a node; units if replicas hold no GPU."""
        return 0 if self.basis is None else self.basis.seen.gpus_held(self.basis.policy)

    @property
    def asleep(self) -> bool:
        """Return whether the pool is at zero and a request wakes it."""
        decision = self.decision
        return decision is not None and decision.wake_s is not None and decision.rest.asleep

    @property
    def claim(self) -> Claim | None:
        """Return the pool's claim on its namespace's quota, with its demand curve."""
        share = None if self.decision is None else self.decision.share
        return None if share is None else share.claim


def plan(world: World, *, now_s: float) -> PassPlan:
    """Return the plan for the pool now."""
    read = read_pool(world, now_s=now_s)
    if isinstance(read, tuple):
        return _rejected(world, read, now_s=now_s)
    before, unreadable = world.memory, None
    if before is None:
        before, unreadable = stored_memory(world, read.name)
    try:
        return _planned(read, world, before, unreadable=unreadable, now_s=now_s)
    except Exception as error:
        # Tandem can learn the lost values again. This memory would fail every later pass, also
        # those of the next process: a pool that stands still is worse.
        sentence = f"The stored memory allows no decision: {type(error).__name__}: {error}"
        unreadable = MemoryFormatError(sentence)
        unreadable.__cause__ = error
        return _planned(read, world, Memory(), unreadable=unreadable, now_s=now_s)


def conclude(planned: PassPlan, outcome: WriteOutcome, *, world: World, now_s: float) -> PassPlan:
    """Return the plan with status and Events as they are after its writes."""
    basis = planned.basis
    if outcome == WriteOutcome() or basis is None:
        return planned
    if outcome.refused:
        outcome = replace(outcome, refused=explained(outcome.refused, basis.mistyped))
    if outcome.refused or outcome.blocked:
        # No count was written, so the counts of other owners still hold.
        basis = replace(basis, seen=see(world, basis.name))
    return _pass_plan(planned, basis, outcome=outcome, world=world, now_s=now_s)


def _planned(
    read: PassBasis,
    world: World,
    before: Memory,
    *,
    unreadable: MemoryFormatError | None = None,
    now_s: float,
) -> PassPlan:
    """Return the plan, from the memory of the tick before."""
    name, seen = read.name, read.seen
    policy = with_reserve(read.policy, turnovers(seen, read.templates))
    decision, memory = decide(policy, seen.observation, before, now_s, quota=world.quota)
    router = read.pool.spec.router
    routers = count_routers(
        before.doors,
        world.routers,
        asked=seen.replicas.get(ROUTER),
        expected=world.router_pods,
        least=router.min_replicas,
        most=router.most_replicas,
        now_s=now_s,
    )
    memory = replace(memory, doors=routers.wants)
    decided = decided_counts(world, policy, seen, decision, routers=routers.to)
    replicas = {**decided, **{str(role): each.to for role, each in read.asked.items()}}
    shrinking = [
        component for component, count in replicas.items() if count < read.live.get(component, 0)
    ]
    moved = any(read.live.get(component) != count for component, count in replicas.items())
    children = children_of(
        read.pool,
        name=name,
        installation=world.installation,
        templates=read.templates,
        steps=next_steps(
            policy,
            turnovers(seen, read.templates, decision=decision),
            surge_gpus=None if decision.share is None else decision.share.surge_gpus,
        ),
        keeping_last=keeping_last(world, seen, decided, memory),
        pace=decision.pace,
        wake_s=decision.wake_s,
        routers=max(seen.replicas.get(ROUTER, 0), replicas.get(ROUTER, 0)) or routers.to,
    )
    route = gateway_route(read.pool.spec, name=name, installation=world.installation)
    due = unreadable is not None or is_due(world, name, moved=moved, now_s=now_s)
    planned = PassPlan(
        children=children,
        route=route,
        costs=tuple(
            cost
            for component in shrinking
            for cost in deletion_costs(seen.of(component), world.engines, world.routers)
        ),
        replicas=replicas,
        mirrored=mirrored_counts(world, name, seen),
        # A cache goes with its pool: without the right to delete claims, none can be lost.
        keep=frozenset(map(key_of, children))
        | {("ConfigMap", name.memory), ("PersistentVolumeClaim", name.cache)}
        | kept_routes(read.pool.spec, name=name)
        | _role_keys(read),
        memory_object=(
            memory_map(name, memory_to_json(memory), written=f"{now_s:.3f}") if due else None
        ),
        memory=memory,
        unreadable=unreadable,
        decision=decision,
        routers=routers,
        requeue_after_s=decision.next_tick_s,
        basis=read,
    )
    return _pass_plan(planned, read, outcome=WriteOutcome(), world=world, now_s=now_s)


def _rejected(world: World, wrong: tuple[str, ...], *, now_s: float) -> PassPlan:
    previous = _previous(world)
    status = rejected_status(
        previous,
        wrong,
        seen=see(world, PoolName.of(world.pool)),
        generation=world.pool["metadata"].get("generation", 0),
        now_s=now_s,
    )
    return PassPlan(
        status=_news(world, status),
        events=events_of(previous, status),
        roles=role_reports(
            world, PoolName.of(world.pool), asked={}, decision=None, in_force=False, now_s=now_s
        ),
        memory=world.memory,
    )


def _pass_plan(
    planned: PassPlan,
    read: PassBasis,
    *,
    outcome: WriteOutcome,
    world: World,
    now_s: float,
) -> PassPlan:
    assert planned.decision is not None  # noqa: S101
    assert planned.routers is not None  # noqa: S101
    facts = PoolFacts(
        name=read.name,
        generation=read.pool.metadata.generation,
        policy=read.policy,
        rivals=world.rivals,
        waiting=world.waiting,
        followed=frozenset(world.asked),
        templates={each: template.hash for each, template in read.templates.items()},
        overridden=_overridden(read.templates),
        idle=without_effect(read.mistyped, read.templates.values()),
        seen=read.seen,
        decision=planned.decision,
        routers=planned.routers,
        least_routers=read.pool.spec.router.min_replicas,
        previous=_previous(world),
        outcome=outcome,
        metrics_source=world.metrics_source,
        prometheus_passed_over=world.prometheus_passed_over,
        prometheus_fault=world.prometheus_fault,
        cost=read.pool.spec.cost,
        schedules=tuple(each.name for each in read.pool.spec.scaling.schedules or ()),
        route=route_facts(read.pool.spec.router.gateway, world, outcome, name=read.name),
        now_s=now_s,
    )
    status = status_of(facts)
    events = (
        *events_of(
            facts.previous,
            status,
            decision=planned.decision if facts.in_force else None,
            outcome=outcome,
        ),
        *routers_scaled(facts, planned.replicas.get(ROUTER)),
    )
    if planned.unreadable is not None:
        message = str(planned.unreadable)
        event = Event(reason=MEMORY_UNREADABLE, message=message, type=EventType.WARNING)
        events = (event, *events)
    if outcome.rekeyed:
        message = rekeyed_sentence(read.name)
        events = (*events, Event(reason=KEY_REPLACED, message=message, type=EventType.WARNING))
    roles = role_reports(
        world,
        read.name,
        asked=read.asked,
        decision=planned.decision,
        in_force=facts.in_force,
        now_s=now_s,
    )
    return replace(planned, status=_news(world, status), events=events, roles=roles)


def _role_keys(read: PassBasis) -> frozenset[tuple[str, str]]:
    """Return PoolRoles that stay although the API server does not list their kind now."""
    return frozenset((ROLE_KIND, read.name.child(role)) for role in external_roles(read.pool.spec))


def _overridden(templates: Mapping[str, Template]) -> tuple[str, ...]:
    return tuple(
        f"{component}.podTemplate.{path}"
        for component, template in templates.items()
        for path in template.overridden
    )


def _previous(world: World) -> PoolStatus:
    try:
        return parse_status(world.pool)
    except ValidationError:
        # Written by another version of the schema: it is replaced as a whole.
        return PoolStatus()


def _news(world: World, status: PoolStatus) -> Mapping[str, Any] | None:
    written = status.to_object()
    return written if status_changed(world.pool.get("status") or {}, written) else None
