"""The replicas that the owner of an External role asks for, and the replicas that it gets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tandem_operator.api import ROLE_KIND
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.pool_names import PoolName, key_of
from tandem_operator.workloads.world import Object


@dataclass(frozen=True, slots=True)
class AskedCount:
    """The count of one role.

    Attributes:
        asked: `spec.replicas` of its PoolRole.
        to: the count that its Deployment gets.
        limit: the field of the pool that makes the two differ.
    """

    asked: int
    to: int
    limit: str | None = None


def asked_counts(
    asked: Mapping[str, int], policy: PoolSpec, seen: LiveObjects, *, rollout_gpus: int
) -> Mapping[Role, AskedCount]:
    """Return the count of each role inside the pool's bounds, whatever owner asks for it.

    Args:
        asked: `spec.replicas` of PoolRoles, by role.
        policy: the policy with the user's whole budget.
        seen: the live objects.
        rollout_gpus: GPUs that a running rollout takes of the budget; nothing grows into them.
    """
    counts = dict(seen.replicas)
    given: dict[Role, AskedCount] = {}
    for role in Role:
        if role in asked:
            bounded = _in_bounds(asked[role], role, policy)
            given[role] = _in_budget(bounded, role, policy, seen, counts, rollout_gpus=rollout_gpus)
            counts[role] = given[role].to
    return given


def pool_roles_by_role(children: Iterable[Object], name: PoolName) -> Mapping[Role, Object]:
    """Return the pool's PoolRoles by role. Their names show it: others may edit the labels."""
    by_key = {key_of(child): child for child in children}
    return {
        role: found
        for role in Role
        if (found := by_key.get((ROLE_KIND, name.child(role)))) is not None
    }


def following(seen: LiveObjects, given: Mapping[Role, AskedCount]) -> LiveObjects:
    """Return the live objects with the counts that this pass writes for the owners of roles."""
    counts = {role: each.to for role, each in given.items()}
    observed = replace(seen.observation, replicas={**seen.observation.replicas, **counts})
    by_name = {str(role): count for role, count in counts.items()}
    return replace(seen, observation=observed, replicas={**seen.replicas, **by_name})


def _in_bounds(asked: int, role: Role, policy: PoolSpec) -> AskedCount:
    bounds = policy.roles[role]
    # No request is served without a pod of each role.
    if asked < max(1, bounds.min_replicas):
        return AskedCount(asked, max(1, bounds.min_replicas), f"{role}.minReplicas")
    if asked > bounds.max_replicas:
        return AskedCount(asked, bounds.max_replicas, f"{role}.maxReplicas")
    return AskedCount(asked, asked)


def _in_budget(
    given: AskedCount,
    role: Role,
    policy: PoolSpec,
    seen: LiveObjects,
    counts: Mapping[str, int],
    *,
    rollout_gpus: int,
) -> AskedCount:
    """Return the count inside the budget: an excess goes, and growth waits for free GPUs."""
    if policy.gpu_budget is None:
        return given
    budget = policy.gpu_budget
    bounds, current = policy.roles[role], counts.get(role, 0)
    others = [other for other in Role if other is not role]

    def room(held: Mapping[Role, int], *, kept: int = 0) -> int:
        taken = sum(held[other] * policy.roles[other].gpus_per_replica for other in others)
        return (budget - kept - taken) // bounds.gpus_per_replica

    asked_for = {other: counts.get(other, 0) for other in others}
    to = min(given.to, max(1, bounds.min_replicas, room(asked_for)))
    if to > current:
        held = {other: max(asked_for[other], len(seen.of(other))) for other in others}
        leaving = len(seen.of(role, PodPhase.TERMINATING))
        to = max(current, min(to, room(held, kept=rollout_gpus) - leaving))
    return given if to == given.to else AskedCount(given.asked, to, "scaling.gpuBudget")
