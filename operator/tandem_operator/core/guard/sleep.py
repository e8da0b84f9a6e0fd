"""Both roles at zero, or neither: the last step for the counts of a pool that may sleep."""

from collections.abc import Mapping

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.gpu_budget import within_budget
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec


def rested(
    spec: PoolSpec,
    fleets: Mapping[Role, RolePods],
    allowed: Mapping[Role, Allowed],
    *,
    asleep: bool,
    target: Mapping[Role, int],
) -> dict[Role, Allowed]:
    """Return the counts of a pool that sleeps or wakes; the counts of any other pool unchanged.

    A wake needs no confirmation, because waiting requests already wait for a whole start. Both
    roles wake at once, or neither while the budget has no room for both.
    """
    asked = {role: fleets[role].asked for role in Role}
    if None in asked.values() or not spec.may_sleep:
        return dict(allowed)
    if asleep:
        return {role: Allowed(asked[role] or 0, 0, Reason.ASLEEP) for role in Role}
    if any(asked.values()):
        return dict(allowed)
    waking = {
        role: Allowed(
            0,
            min(max(1, bounds.min_replicas, target.get(role, 1)), max(1, bounds.max_replicas)),
            Reason.WAKING,
        )
        for role, bounds in spec.roles.items()
    }
    fitted = within_budget(spec, fleets, waking, target=dict.fromkeys(Role, 1))
    if all(each.to > 0 for each in fitted.values()):
        return fitted
    return {role: Allowed(0, 0, Reason.GPU_BUDGET, ("gpuBudget",)) for role in Role}
