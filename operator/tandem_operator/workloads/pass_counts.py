"""The replica counts that a pass writes, and the components that keep their only pod."""

from collections.abc import Mapping

from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.workloads.observed.asked_counts import pool_roles_by_role
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import World


def left_alone(world: World, component: str) -> bool:
    """Return whether a rival sets the component's count, so that Tandem does not."""
    return component in world.rivals and world.rivals[component].left_alone


def decided_counts(
    world: World, policy: PoolSpec, seen: LiveObjects, decision: Decision, *, routers: int
) -> Mapping[str, int]:
    """Return the counts that Tandem sets; a new owner of a role inherits the present count."""
    counts: dict[str, int] = {}
    for role, decided in decision.roles.items():
        new = role not in seen.replicas
        if policy.roles[role].managed and (new or policy.mode is Mode.AUTO):
            counts[role] = decided.to
    if ROUTER not in seen.replicas or policy.mode is not Mode.PAUSED:
        counts[ROUTER] = max(routers, 2 if _router_leaves_alone(seen) else 1)
    return {each: count for each, count in counts.items() if not left_alone(world, each)}


def mirrored_counts(world: World, name: PoolName, seen: LiveObjects) -> Mapping[str, int]:
    """Return the counts of their Deployments for PoolRoles that no client has scaled yet.

    An autoscaler reads its target's present count before it writes one, and `/scale` has none while
    the field is not set.
    """
    unasked = {
        role: (found.get("spec") or {}).get("replicas")
        for role, found in pool_roles_by_role(world.children, name).items()
        if role not in world.asked
    }
    return {
        role: seen.replicas[role]
        for role, count in unasked.items()
        if role in seen.replicas and count != seen.replicas[role]
    }


def keeping_last(
    world: World, seen: LiveObjects, replicas: Mapping[str, int], memory: Memory
) -> frozenset[str]:
    """Return components whose only pod no eviction may take: Tandem starts another one first.

    Tandem cannot do so if another client sets the count or nodes cannot be read. Then a budget that
    allows no eviction would block a node drain for ever.
    """
    if world.cordoned is None:
        return frozenset()
    return frozenset(
        component
        for component, count in replicas.items()
        if min(count, seen.replicas.get(component, count)) <= 1
        or component in memory.relieved
        or (component == ROUTER and _router_leaves_alone(seen))
    )


def _router_leaves_alone(seen: LiveObjects) -> bool:
    """Return whether the node of the only Ready router is being drained."""
    ready = seen.of(ROUTER, PodPhase.READY)
    return len(ready) == 1 and ready[0].leaving
