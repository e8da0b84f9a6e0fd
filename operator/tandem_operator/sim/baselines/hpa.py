"""Kubernetes' HorizontalPodAutoscaler, one per role: tolerance, stabilisation and rate policies.

It follows `autoscaling/v2` of the controller. Totals are divided by the replicas (`AverageValue`).
Latencies are compared directly (`Value`) and scale the ready pods. Before a shrink, a ready pod
without metrics counts as at its target. KEDA feeds the same controller: its queue scaling is the
same algorithm on an external total.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.sim.baselines.signals import PodCounts, Signal, fleet_of, reading
from tandem_operator.sim.policy import PolicyAnswer

SYNC_S = 15.0
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """The largest change within a period: a number of pods, or a share of them."""

    period_s: float
    pods: int | None = None
    percent: float | None = None

    def grown(self, start: int) -> int:
        """Return the most that `start` replicas may become."""
        if self.pods is not None:
            return start + self.pods
        return ceil(start * (1.0 + (self.percent or 0.0) / 100.0))

    def shrunk(self, start: int) -> int:
        """Return the least that `start` replicas may become."""
        if self.pods is not None:
            return start - self.pods
        return int(start * (1.0 - (self.percent or 0.0) / 100.0))


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one direction: a window of agreement, and policies; the widest policy counts."""

    stabilization_s: float
    policies: tuple[RatePolicy, ...]


SCALE_UP = Rules(0.0, (RatePolicy(15.0, percent=100.0), RatePolicy(15.0, pods=4)))
SCALE_DOWN = Rules(300.0, (RatePolicy(15.0, percent=100.0),))


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """The signal to watch, and its target: per replica, or for latency as it is."""

    signal: Signal
    target: Mapping[Role, float]
    up: Rules = SCALE_UP
    down: Rules = SCALE_DOWN


@dataclass(slots=True)
class _History:
    recommended: list[tuple[float, int]] = field(default_factory=list)
    changed: list[tuple[float, int]] = field(default_factory=list)


class Hpa:
    """One autoscaler per role; neither knows about the other."""

    def __init__(self, name: str, settings: HpaSettings) -> None:
        self.name = name
        self._settings = settings
        self._history = {role: _History() for role in Role}

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Run one sync of both."""
        replicas = {role: self._sync(role, spec.roles[role], observation, now_s) for role in Role}
        return PolicyAnswer(replicas=replicas, next_tick_s=SYNC_S)

    def _sync(self, role: Role, bounds: RoleSpec, observation: Observation, now_s: float) -> int:
        fleet = fleet_of(observation, role)
        value = reading(observation, role, self._settings.signal)
        low, high = max(1, bounds.min_replicas), bounds.max_replicas
        history = self._history[role]
        if not history.recommended:
            # The controller also uses the present count as its first recommendation.
            history.recommended.append((now_s, fleet.asked))
        if value is None:
            # A metric that cannot be read stops this autoscaler until it can.
            return min(max(fleet.asked, low), high)
        desired = proposal(
            value, self._settings.target[role], fleet, total=self._settings.signal != Signal.LATENCY
        )
        stable = _stabilized(desired, fleet.asked, history, self._settings, now_s)
        limited = _rate_limited(stable, fleet.asked, history, self._settings, now_s)
        to = min(max(limited, low), high)
        if to != fleet.asked:
            history.changed.append((now_s, to - fleet.asked))
        return to


def proposal(value: float, target: float, fleet: PodCounts, *, total: bool) -> int:
    """Return the replicas that reach the metric's target; within tolerance, the present count."""
    if total:
        kept = target * max(1, fleet.existing)
        if value < kept:
            value = min(kept, value + target * fleet.silent)
        ratio = value / kept
        wanted = ceil(value / target - 1e-9)
    else:
        ratio = value / target
        wanted = ceil(ratio * fleet.ready - 1e-9)
    return fleet.asked if 1.0 - TOLERANCE <= ratio <= 1.0 + TOLERANCE else wanted


def _stabilized(
    desired: int, current: int, history: _History, settings: HpaSettings, now_s: float
) -> int:
    """Return the count, raised to the up window's least and cut to the down window's most."""
    kept_s = max(settings.up.stabilization_s, settings.down.stabilization_s)
    history.recommended = [each for each in history.recommended if each[0] > now_s - kept_s]
    up, down = desired, desired
    for at_s, count in history.recommended:
        if at_s > now_s - settings.up.stabilization_s:
            up = min(up, count)
        if at_s > now_s - settings.down.stabilization_s:
            down = max(down, count)
    history.recommended.append((now_s, desired))
    return min(max(current, up), down)


def _rate_limited(
    desired: int, current: int, history: _History, settings: HpaSettings, now_s: float
) -> int:
    def start(policy: RatePolicy) -> int:
        return current - sum(d for at_s, d in history.changed if at_s > now_s - policy.period_s)

    if desired > current:
        most = max(policy.grown(start(policy)) for policy in settings.up.policies)
        return min(desired, max(current, most))
    if desired < current:
        least = min(policy.shrunk(start(policy)) for policy in settings.down.policies)
        return max(desired, min(current, least))
    return desired


def keda(target: Mapping[Role, float], *, signal: Signal = Signal.CONCURRENCY) -> Hpa:
    """Return queue scaling as KEDA does it: a total per replica, with its defaults otherwise."""
    return Hpa(f"KEDA-like on {signal}", HpaSettings(signal=signal, target=target))
