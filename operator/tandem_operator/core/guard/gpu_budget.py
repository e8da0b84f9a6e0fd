"""The GPU budget of the spec: an excess goes at once, and growth waits until there is room."""

from collections.abc import Mapping

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec


def room_of(spec: PoolSpec, fleets: Mapping[Role, RolePods]) -> int:
    """Return GPUs of the budget that no pod holds or may claim, terminating pods included."""
    if spec.gpu_budget is None:
        return 10**9
    held = sum(fleets[role].held * spec.roles[role].gpus_per_replica for role in Role)
    return spec.gpu_budget - held


def within_budget(
    spec: PoolSpec,
    fleets: Mapping[Role, RolePods],
    allowed: Mapping[Role, Allowed],
    *,
    target: Mapping[Role, int] | None = None,
) -> dict[Role, Allowed]:
    """Return the counts inside the budget: an excess goes at once, and growth waits for room.

    `target` is the chosen pair of counts, if there is one.
    """
    if spec.gpu_budget is None:
        return dict(allowed)
    fitted = _trim(spec, allowed, target or {})
    room = room_of(spec, fleets)
    # The role that lacks most, relative to its count, is served first.
    growing = sorted(
        (r for r in Role if spec.roles[r].managed and fitted[r].to > fitted[r].current),
        key=lambda r: (-fitted[r].to / max(1, fitted[r].current), r),
    )
    for role in growing:
        gpus, plan = max(1, spec.roles[role].gpus_per_replica), fitted[role]
        have = fleets[role].held - fleets[role].terminating
        given = max(0, min(plan.to - have, room // gpus))
        room -= given * gpus
        if have + given < plan.to:
            to = max(plan.current, have + given)
            fitted[role] = _cut(plan, to)
    return fitted


def _cut(plan: Allowed, to: int) -> Allowed:
    limits = tuple(dict.fromkeys((*plan.limits_hit, "gpuBudget")))
    reason = Reason.GPU_BUDGET if to <= plan.current else plan.reason
    return Allowed(current=plan.current, to=to, reason=reason, limits_hit=limits)


def _trim(
    spec: PoolSpec, allowed: Mapping[Role, Allowed], target: Mapping[Role, int]
) -> dict[Role, Allowed]:
    """Cut the counts until they fit: growth, then excess over target, then the larger fleet."""
    fitted = dict(allowed)

    def gpus(role: Role) -> int:
        plan = fitted[role]
        count = plan.to if spec.roles[role].managed else plan.current
        return count * spec.roles[role].gpus_per_replica

    def rank(role: Role) -> tuple[bool, bool, int, Role]:
        plan = fitted[role]
        return plan.to > plan.current, plan.to > target.get(role, plan.to), gpus(role), role

    while sum(gpus(role) for role in Role) > (spec.gpu_budget or 0):
        spare = [
            role
            for role in Role
            if spec.roles[role].managed and fitted[role].to > max(1, spec.roles[role].min_replicas)
        ]
        if not spare:
            break
        role = max(spare, key=rank)
        fitted[role] = _cut(fitted[role], fitted[role].to - 1)
    return fitted
