"""The node of a role's only Ready pod is being drained: another pod starts, then this one goes.

A disruption budget that keeps the last pod would block the drain for ever. So the role holds one
replica more, inside the GPU budget, until the new pod is Ready. Then Tandem removes the pod on that
node. No other role or pool gives up a replica for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.gpu_budget import room_of
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec


@dataclass(frozen=True, slots=True)
class Relief:
    """The measures for pods on nodes that are being drained.

    Attributes:
        roles: roles that hold a replica more for a drain, to be remembered.
        blocked: roles that would, if the budget had room.
    """

    allowed: Mapping[Role, Allowed]
    roles: tuple[Role, ...] = ()
    blocked: tuple[Role, ...] = ()


def relieve(
    spec: PoolSpec,
    fleets: Mapping[Role, RolePods],
    allowed: Mapping[Role, Allowed],
    *,
    under_way: Sequence[Role],
    wanted: Mapping[Role, int] | None,
) -> Relief:
    """Return the counts with one replica more for each drain that needs it.

    Args:
        spec: the pool's, with the budget that a surge may use.
        fleets: the pods by role.
        allowed: the counts without relief.
        under_way: the roles that hold a replica more for it since an earlier tick.
        wanted: the counts for the load alone; `None` if not known.
    """
    counts, roles, blocked = dict(allowed), [], []
    for role in Role:
        fleet, plan, least = fleets[role], allowed[role], max(1, spec.roles[role].min_replicas)
        if fleet.asked is None or not spec.roles[role].managed or spec.mode is not Mode.AUTO:
            continue
        begun = role in under_way and fleet.asked > 1
        if begun and (wanted or {}).get(role, least) >= fleet.asked:
            # The load has grown into it: it is a replica like any other now.
            continue
        if begun and (_alone(fleet) or not fleet.ready):
            roles.append(role)
            if plan.to <= fleet.asked:
                counts[role] = Allowed(fleet.asked, fleet.asked, Reason.NODE_DRAIN)
        elif begun:
            counts[role] = Allowed(fleet.asked, fleet.asked - 1, Reason.NODE_DRAIN)
        elif _alone(fleet) and plan.to < fleet.asked:
            counts[role] = Allowed(fleet.asked, fleet.asked, Reason.NODE_DRAIN)
        elif _alone(fleet) and plan.to == 1:
            if _has_room(spec, fleets, counts, role):
                counts[role] = Allowed(fleet.asked, 2, Reason.NODE_DRAIN)
                roles.append(role)
            else:
                counts[role] = replace(plan, reason=Reason.NODE_DRAIN, limits_hit=("gpuBudget",))
                blocked.append(role)
    return Relief(counts, tuple(roles), tuple(blocked))


def _alone(fleet: RolePods) -> bool:
    """Return whether its only Ready pod must go."""
    return len(fleet.ready) == 1 and fleet.ready[0].leaving


def _has_room(
    spec: PoolSpec, fleets: Mapping[Role, RolePods], counts: Mapping[Role, Allowed], role: Role
) -> bool:
    growing = sum(
        max(0, counts[each].to - counts[each].current) * spec.roles[each].gpus_per_replica
        for each in Role
    )
    return room_of(spec, fleets) - growing >= spec.roles[role].gpus_per_replica
