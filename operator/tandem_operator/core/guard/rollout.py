"""Replacing a fleet's pods after an edit, without ever holding more GPUs than the budget.

A Deployment does not count terminating pods: it makes the next pod at the moment at which it stops
one. So Tandem allows each next pod only if the budget has room for the overlap. Until then it
pauses the Deployment. A fleet at its budget gives up a replica during the rollout. The roles take
turns, so that pods of the new revision soon find partners.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec

UNBOUNDED_GPUS = 10**9


class RolloutStep(StrEnum):
    """The next step that a role's Deployment may take."""

    SURGE = "Surge"
    """Start the new pod, then stop an old one."""
    IN_PLACE = "InPlace"
    """Stop an old pod, and start the new one meanwhile."""
    STOP_FIRST = "StopFirst"
    """Stop the old pod, and start the new one once it is gone: the role does not serve
    meanwhile."""
    WAIT = "Wait"
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """The progress of one role's rollout.

    Attributes:
        asked: its present or next replica count, whichever is more.
        pods: pods that do not terminate.
        old: those of them that must be replaced.
        starting: other pods of them that are not Ready.
        leaving: pods that terminate.
    """

    asked: int
    pods: int = 0
    old: int = 0
    starting: int = 0
    leaving: int = 0

    @property
    def held(self) -> int:
        """Return replicas that hold their GPUs, or may claim them at any moment."""
        return max(self.asked, self.pods) + self.leaving

    @property
    def rolling(self) -> bool:
        """Return whether pods must be replaced, or the only one was stopped for it."""
        return self.old > 0 or (self.asked == 1 and self.pods == 0 and self.leaving > 0)

    @property
    def between(self) -> bool:
        """Return whether it serves with too few pods, because new pods are not Ready yet."""
        return self.rolling and (self.starting > 0 or self.pods < self.asked)

    @property
    def done_share(self) -> float:
        """Return the share of new pods."""
        return 1.0 - self.old / max(1, self.pods)

    @property
    def surge(self) -> int:
        """Return replicas beyond `held` if the next pod starts first.

        When it is Ready an old pod terminates, and if that was not the last, one more is made.
        """
        return max(0, max(1, self.asked) + 1 - self.pods) + (self.old > 1)


def with_reserve(spec: PoolSpec, fleets: Mapping[Role, Turnover]) -> PoolSpec:
    """Return the spec with the budget minus the needs of a running rollout, and fitting minimums.

    A part that is free now is kept too, as far as it saves a replica. Nothing is reserved if Tandem
    does not set the counts, or if fewer replicas would be none.
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
    """Return the step that each role's Deployment may take until the next tick.

    Args:
        spec: as `with_reserve` returned it.
        fleets: the progress of each role, with the counts of this tick.
        surge_gpus: the most GPUs of pods that start first, by the namespace's quota; a quota
            refuses an excess by itself, so no step waits for it.
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
    """Return one role's step if no pod can start first; `between`: the other role replaces pods."""
    if between:
        return RolloutStep.WAIT
    if fleet.asked <= 1:
        return RolloutStep.STOP_FIRST
    if room >= 1:
        return RolloutStep.IN_PLACE
    # No part will make room: the owner that set the count above the budget wants it served.
    return RolloutStep.IN_PLACE if not room_is_made and not fleet.leaving else RolloutStep.WAIT
