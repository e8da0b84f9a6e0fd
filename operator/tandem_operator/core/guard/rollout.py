"""Replacing a fleet's pods after an edit, without ever holding more GPUs than the budget.

A Deployment does not count pods that terminate: it makes the next pod in the moment in which it
stops one. So each next pod is let go only where the budget has room for the overlap; until then
the Deployment is paused. A fleet at its budget gives up a replica for as long as the rollout lasts.
The roles go on by turns, so that pods of the new revision find partners soon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec

UNBOUNDED_GPUS = 10**9


class RolloutStep(StrEnum):
    """What a role's Deployment may do next."""

    SURGE = "Surge"
    """Start the new pod, then stop an old one."""
    IN_PLACE = "InPlace"
    """Stop an old pod, and start the new one meanwhile."""
    STOP_FIRST = "StopFirst"
    """Start the new pod once the old one is gone: the role serves nobody meanwhile."""
    WAIT = "Wait"
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """How far one role has come.

    Attributes:
        asked: the replicas that it has or is about to be asked for, whichever is more.
        pods: those that do not leave.
        old: those of them that are to be replaced.
        starting: those of the others that are not Ready.
        leaving: pods that terminate.
    """

    asked: int
    pods: int = 0
    old: int = 0
    starting: int = 0
    leaving: int = 0

    @property
    def held(self) -> int:
        """Replicas that hold their GPUs, or may claim them at any moment."""
        return max(self.asked, self.pods) + self.leaving

    @property
    def rolling(self) -> bool:
        """Whether pods are to be replaced, or the only one was stopped for it."""
        return self.old > 0 or (self.asked == 1 and self.pods == 0 and self.leaving > 0)

    @property
    def between(self) -> bool:
        """Whether it serves with less than is asked for, since new pods are not Ready yet."""
        return self.rolling and (self.starting > 0 or self.pods < self.asked)

    @property
    def done_share(self) -> float:
        """How much of it is new."""
        return 1.0 - self.old / max(1, self.pods)

    @property
    def surge(self) -> int:
        """Replicas on top of `held` while the next pod comes first.

        When it is Ready an old pod terminates, and if that was not the last, one more is made.
        """
        return max(0, max(1, self.asked) + 1 - self.pods) + (self.old > 1)


def with_reserve(spec: PoolSpec, fleets: Mapping[Role, Turnover]) -> PoolSpec:
    """The spec with a budget less what a rollout under way needs, and with minimums that fit.

    What is free now is kept too, as far as it spares a replica. Nothing is reserved where counts
    are not Tandem's to set, or where fewer replicas would be none.
    """
    rolling = [role for role in Role if fleets[role].rolling]
    if spec.gpu_budget is None or spec.mode is not Mode.AUTO or not rolling:
        return spec
    gpus = {role: spec.roles[role].gpus_per_replica for role in Role}
    free = spec.gpu_budget - sum(fleets[role].asked * gpus[role] for role in Role)
    needed = max(gpus[role] for role in rolling)
    kept = min(max(needed, free), sum(2 * gpus[role] for role in rolling))
    for lower in (None, *sorted(Role, key=lambda role: role not in rolling)):
        lowered = spec if lower is None else _with_lower_minimum(spec, lower)
        least = sum(_least(lowered, role, fleets[role]) * gpus[role] for role in Role)
        if spec.gpu_budget - needed >= least:
            kept = min(kept, spec.gpu_budget - least)
            return replace(lowered, gpu_budget=spec.gpu_budget - kept, rollout_gpus=kept)
    return spec


def _with_lower_minimum(spec: PoolSpec, role: Role) -> PoolSpec:
    bounds = replace(spec.roles[role], min_replicas=spec.roles[role].min_replicas - 1)
    return replace(spec, roles={**spec.roles, role: bounds})


def _least(spec: PoolSpec, role: Role, fleet: Turnover) -> int:
    bounds = spec.roles[role]
    return max(1, bounds.min_replicas) if bounds.managed else fleet.asked


def next_steps(
    spec: PoolSpec, fleets: Mapping[Role, Turnover], *, surge_gpus: int | None
) -> dict[Role, RolloutStep]:
    """What each role's Deployment may do until the next tick.

    Args:
        spec: as `with_reserve` returned it.
        fleets: how far each role has come, with the counts that this tick asks for.
        surge_gpus: the most that pods which come first may hold, by the namespace's quota; a quota
            refuses what is too much by itself, so nothing waits for it.
    """
    budget_gpus = UNBOUNDED_GPUS
    if spec.gpu_budget is not None:
        budget_gpus = spec.gpu_budget + spec.rollout_gpus
    held = sum(fleets[role].held * spec.roles[role].gpus_per_replica for role in Role)
    room = budget_gpus - held
    quota_room = (UNBOUNDED_GPUS if surge_gpus is None else surge_gpus) - held
    steps: dict[Role, RolloutStep] = {}
    between = False
    for role in sorted(Role, key=lambda r: (not fleets[r].between, fleets[r].done_share)):
        fleet, gpus = fleets[role], spec.roles[role].gpus_per_replica
        surge = fleet.surge if fleet.rolling else 1
        taken = surge
        if surge == 0 or min(room, quota_room) >= surge * gpus:
            step = RolloutStep.SURGE
        elif not fleet.rolling:
            step, taken = RolloutStep.IN_PLACE, 0
        else:
            made = spec.rollout_gpus > 0
            step = _without_surge(fleet, room=room // gpus, room_is_made=made, between=between)
            taken = int(step is RolloutStep.IN_PLACE)
        steps[role] = step
        room, quota_room = room - taken * gpus, quota_room - taken * gpus
        between = between or fleet.between or (fleet.rolling and step is not RolloutStep.WAIT)
    return steps


def _without_surge(fleet: Turnover, *, room: int, room_is_made: bool, between: bool) -> RolloutStep:
    """One role's step where nothing comes first; `between`: the other's pods are being replaced."""
    if between:
        return RolloutStep.WAIT
    if fleet.asked <= 1:
        return RolloutStep.STOP_FIRST
    if room >= 1:
        return RolloutStep.IN_PLACE
    # Nobody will make room: who set the count above the budget meant it to be served.
    return RolloutStep.IN_PLACE if not room_is_made and not fleet.leaving else RolloutStep.WAIT
