"""The replicas that schedules hold now: those of periods in force, and of starts that are near.

Pods are asked for one start before a period begins, so they serve when it does. Schedules only
raise minimums, and the GPU budget goes before them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tandem_operator.core.role import Role
from tandem_operator.core.spec import Period, PoolSpec

CLOCK_SET_BACK_RATIO = 2.0
"""A start that was near stays near until it is so many times further away than it was."""


@dataclass(frozen=True, slots=True)
class Called:
    """What schedules ask of a pool now; nothing without any.

    Attributes:
        periods: in force, or about to begin.
        floors: the fewest replicas of both roles meanwhile; none without such a period.
        raises: roles whose floor is above the minimum of the spec.
        early_s: time before a start at which pods were asked for; `None` while no start is near.
    """

    periods: tuple[Period, ...] = ()
    floors: Mapping[Role, int] = field(default_factory=dict)
    raises: frozenset[Role] = frozenset()
    early_s: float | None = None

    def raised(self, spec: PoolSpec) -> PoolSpec:
        """Return the spec with these minimums."""
        if not self.floors:
            return spec
        roles = {
            role: replace(bounds, min_replicas=max(bounds.min_replicas, self.floors[role]))
            if bounds.managed
            else bounds
            for role, bounds in spec.roles.items()
        }
        return replace(spec, roles=roles)

    def holding(self, role: Role, *, now_s: float) -> Period | None:
        """Return the period that best tells of a role's floor: the highest, then the longest."""
        return max(
            self.periods,
            key=lambda each: (
                each.floors.get(role, 0),
                each.start_s <= now_s,
                float("inf") if each.end_s is None else each.end_s,
            ),
            default=None,
        )


NOTHING_CALLED = Called()


def called(
    spec: PoolSpec,
    *,
    asked: Mapping[Role, int],
    lead_s: float,
    early_s: float | None,
    now_s: float,
) -> Called:
    """Return what schedules ask for.

    A lead that shrinks meanwhile, or a clock that was set back a little, sends no pod away again:
    what was asked for early stays.

    Args:
        spec: with the periods.
        asked: the present replicas.
        lead_s: time from a decision until a new pod serves.
        early_s: that of the last `Called`.
        now_s: the time.
    """
    coming = [each for each in spec.periods if not each.over(now_s)]
    nearest_s = min((p.start_s - now_s for p in coming if p.start_s > now_s), default=None)
    within_s, kept_s = lead_s, None
    if nearest_s is not None:
        if early_s is not None and nearest_s <= CLOCK_SET_BACK_RATIO * early_s:
            kept_s = max(early_s, lead_s)
            within_s = max(kept_s, nearest_s)
        elif nearest_s <= lead_s:
            kept_s = lead_s
    due = tuple(each for each in coming if each.start_s - within_s <= now_s)
    floors = _floors(spec, due, asked=asked) if due else {}
    raises = frozenset(r for r, n in floors.items() if n > max(1, spec.roles[r].min_replicas))
    return Called(periods=due, floors=floors, raises=raises, early_s=kept_s)


def _floors(
    spec: PoolSpec, due: Sequence[Period], *, asked: Mapping[Role, int]
) -> Mapping[Role, int]:
    """Return the highest floor of each role, less what the GPU budget has no room for."""
    least = {
        role: max(1, bounds.min_replicas) if bounds.managed else asked[role]
        for role, bounds in spec.roles.items()
    }
    floors = {
        role: max(
            least[role],
            min(
                max((each.floors.get(role, 0) for each in due), default=0),
                spec.roles[role].max_replicas,
            ),
        )
        if spec.roles[role].managed
        else least[role]
        for role in Role
    }
    gpus = {role: spec.roles[role].gpus_per_replica for role in Role}
    while spec.gpu_budget is not None and spec.gpu_budget < sum(
        floors[role] * gpus[role] for role in Role
    ):
        above = [role for role in Role if floors[role] > least[role]]
        if not above:
            break
        floors[max(above, key=lambda role: (floors[role] - least[role]) * gpus[role])] -= 1
    return floors
