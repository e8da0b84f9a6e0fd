"""From the desired counts to the counts that may be set now: confirm growth, delay shrinking.

Growth happens when two ticks agree. If it is urgent, it happens at once. If a little less load
would not need it, it happens after a quarter of a minute, because such a need often is chance.
Shrinking needs fresh data and a whole stabilisation window. It stops at the need of the most
demanding tick of that window. Bounds and budget of the spec always hold, also with stale data: they
are orders, not guesses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.gpu_budget import room_of, within_budget
from tandem_operator.core.guard.growth_confirmation import Past, confirmed
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Scene:
    """Facts that the guard needs besides the choice.

    Attributes:
        enough_history: whether enough is known of the traffic for any shrink.
    """

    fleets: Mapping[Role, RolePods]
    may_shrink: bool
    enough_history: bool
    idle: bool
    urgent: frozenset[Role] = field(default_factory=frozenset)


def hold(spec: PoolSpec, fleets: Mapping[Role, RolePods], reason: Reason) -> dict[Role, Allowed]:
    """Return the present counts inside bounds and budget, when no decision is possible."""
    allowed = {role: _bounded(spec.roles[role], fleets[role], reason) for role in Role}
    return within_budget(spec, fleets, allowed)


def guard(
    spec: PoolSpec,
    choice: Choice,
    past: Mapping[Role, Past],
    scene: Scene,
    now_s: float,
    *,
    tuning: Tuning = TUNING,
) -> dict[Role, Allowed]:
    """Return the counts that may be set now."""
    due = {
        role: choice.target[role]
        if role in scene.urgent
        else confirmed(
            past[role],
            choice.target[role],
            asked=scene.fleets[role].asked or 0,
            now_s=now_s,
            tuning=tuning,
        )
        for role in Role
    }
    blocked_by_budget = [
        role
        for role in Role
        if due[role] > (scene.fleets[role].asked or 0)
        and room_of(spec, scene.fleets) < spec.roles[role].gpus_per_replica
    ]
    allowed = {}
    for role in Role:
        start = _bounded(spec.roles[role], scene.fleets[role], Reason.STEADY)
        if start.reason in (Reason.INITIAL, Reason.AT_BOUND):
            allowed[role] = start
            continue
        move = _Move(
            spec=spec,
            past=past[role],
            scene=scene,
            fleet=scene.fleets[role],
            target=choice.target[role],
            due=due[role],
            wanted=choice.wanted[role],
            limits=choice.limits_hit.get(role, ()),
            now_s=now_s,
            trade=role.other in blocked_by_budget,
            tuning=tuning,
        )
        allowed[role] = move.decide()
    return within_budget(spec, scene.fleets, allowed, target=choice.target)


def _bounded(bounds: RoleSpec, fleet: RolePods, otherwise: Reason) -> Allowed:
    low = max(1, bounds.min_replicas)
    high = max(low, bounds.max_replicas)
    if fleet.asked is None:
        return Allowed(current=0, to=low, reason=Reason.INITIAL)
    to = min(max(fleet.asked, low), high)
    if to == fleet.asked:
        return Allowed(current=fleet.asked, to=to, reason=otherwise)
    limit = "minReplicas" if to > fleet.asked else "maxReplicas"
    return Allowed(current=fleet.asked, to=to, reason=Reason.AT_BOUND, limits_hit=(limit,))


@dataclass(frozen=True, slots=True)
class _Move:
    """One role on its way from its present count to its target.

    `due` is the confirmed part of the target. `trade` marks a role whose spare replicas the other
    role needs: it waits a shorter window.
    """

    spec: PoolSpec
    past: Past
    scene: Scene
    fleet: RolePods
    target: int
    due: int
    wanted: int
    limits: tuple[str, ...]
    now_s: float
    trade: bool
    tuning: Tuning = TUNING

    @property
    def current(self) -> int:
        return self.fleet.asked or 0

    def decide(self) -> Allowed:
        if self.target > self.current:
            return self._grow()
        if self.target < self.current:
            return self._shrink()
        reason = Reason.STEADY
        if self.wanted > self.current and self.limits:
            reason = Reason.GPU_BUDGET if "gpuBudget" in self.limits else Reason.AT_BOUND
        elif self.fleet.blocked:
            reason = Reason.CAPACITY_BLOCKED
        elif self.fleet.starting:
            reason = Reason.STARTING_PODS
        return self._stay(reason)

    def _stay(self, reason: Reason, *more_limits: str) -> Allowed:
        return Allowed(self.current, self.current, reason, (*self.limits, *more_limits))

    def _grow(self) -> Allowed:
        if self.fleet.blocked:
            # More requests for pods that the cluster cannot start only make the queue longer.
            return self._stay(Reason.CAPACITY_BLOCKED, "capacity")
        target = self.due
        if target <= self.current:
            return self._stay(Reason.STARTING_PODS if self.fleet.starting else Reason.STEADY)
        limits, step = self.limits if target == self.target else (), self.spec.max_step
        if step is not None and target - self.current > max(1, step):
            target, limits = self.current + max(1, step), (*limits, "maxStep")
        return Allowed(self.current, target, None, limits)

    def _shrink(self) -> Allowed:
        if self.past.keeps.runs[-1].target >= self.current:
            # One replica less is enough for the present load, but not for a little more of it.
            return self._stay(Reason.STARTING_PODS if self.fleet.starting else Reason.STEADY)
        if not self.scene.may_shrink:
            return self._stay(Reason.STALE_METRICS)
        if not self.scene.enough_history:
            return self._stay(Reason.NEW_TRAFFIC)
        window_s = self.spec.stabilization_s
        if self.trade:
            window_s = min(window_s, self.tuning.guard.trade_s)
        kept = self.past.keeps.within(window_s, self.now_s)
        if kept is None:
            return self._stay(Reason.STABILIZING)
        spare = self.current - max(kept)
        if self.fleet.starting:
            # Only pods that do not serve yet may go: Kubernetes removes NotReady pods first.
            spare = min(spare, len(self.fleet.starting))
        if spare <= 0:
            return self._stay(Reason.STABILIZING)
        if self.spec.max_step is not None:
            spare = min(spare, max(1, self.spec.max_step))
        return Allowed(self.current, self.current - spare, Reason.SPARE_CAPACITY)
