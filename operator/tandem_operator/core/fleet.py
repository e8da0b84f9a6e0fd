"""Where each role's pods are, which of them count as capacity, and how long a start takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.observation import Observation, PodPhase, PodState
from tandem_operator.core.role import Role

UNMEASURED_START_S = 60.0
LONGEST_START_S = 3600.0
KEPT_STARTS = 32
SETTLE_S = 15.0
STUCK_MARGIN = 1.5
STUCK_SLACK_S = 30.0
STUCK_UNMEASURED_S = 600.0


@dataclass(frozen=True, slots=True)
class Start:
    """How long one pod took from its creation to Ready."""

    pod: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Starts:
    """Measured starts per role, oldest first. A pod counts once, at its first Ready."""

    measured: Mapping[Role, tuple[Start, ...]] = field(default_factory=dict)

    def learn(self, pods: tuple[PodState, ...]) -> "Starts":
        """The starts after one more look at the pods."""
        measured = dict(self.measured)
        for pod in sorted(pods, key=lambda p: (p.created_s, p.name)):
            known = measured.get(pod.role, ())
            if pod.ready_s is None or any(start.pod == pod.name for start in known):
                continue
            seconds = pod.ready_s - pod.created_s
            if 0.0 < seconds <= LONGEST_START_S:
                measured[pod.role] = (*known, Start(pod.name, seconds))[-KEPT_STARTS:]
        return Starts(measured=measured)

    def quantile_s(self, role: Role, share: float) -> float | None:
        """Start time that `share` of the role's starts stay under; of all starts while unknown."""
        seconds = [start.seconds for start in self.measured.get(role, ())]
        if not seconds:
            seconds = [s.seconds for starts in self.measured.values() for s in starts]
        if not seconds:
            return None
        return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]

    def expected_s(self, role: Role) -> float:
        """P90 of the role's start time, or a minute while nothing was measured."""
        return self.quantile_s(role, 0.9) or UNMEASURED_START_S


@dataclass(frozen=True, slots=True)
class Fleet:
    """One role's pods at one moment.

    Attributes:
        asked: what the Deployment asks for; `None` where there is none yet.
        held: replicas that hold or may claim their GPUs: asked or existing, terminating on top.
        stuck: pods that do not come up; they earn no credit.
    """

    role: Role
    asked: int | None
    ready: tuple[PodState, ...]
    starting: tuple[PodState, ...]
    stuck: tuple[PodState, ...]
    terminating: int
    held: int

    @property
    def revision(self) -> str | None:
        """The pod template hash that most ready pods run, else the newest pod's."""
        pods = self.ready or self.starting or self.stuck
        if not pods:
            return None
        hashes = [pod.revision for pod in pods]
        newest = max(pods, key=lambda pod: (pod.created_s, pod.name)).revision
        return max(set(hashes), key=lambda h: (hashes.count(h), h == newest, h))


def fleet(observation: Observation, role: Role, starts: Starts, now_s: float) -> Fleet:
    """The role's pods, sorted by what they are worth."""
    pods = [pod for pod in observation.pods if pod.role is role]
    ready = tuple(pod for pod in pods if pod.phase is PodPhase.READY)
    coming = [p for p in pods if p.phase in (PodPhase.STARTING, PodPhase.UNSCHEDULED)]
    stuck = tuple(pod for pod in coming if _is_stuck(pod, starts, now_s))
    terminating = sum(1 for pod in pods if pod.phase is PodPhase.TERMINATING)
    asked = observation.replicas.get(role)
    return Fleet(
        role=role,
        asked=asked,
        ready=ready,
        starting=tuple(pod for pod in coming if pod not in stuck),
        stuck=stuck,
        terminating=terminating,
        held=max(asked or 0, len(ready) + len(coming)) + terminating,
    )


def _is_stuck(pod: PodState, starts: Starts, now_s: float) -> bool:
    age_s = now_s - pod.created_s
    if age_s <= SETTLE_S:
        return False
    if pod.problem is not None or pod.phase is PodPhase.UNSCHEDULED:
        return True
    slowest_s = starts.quantile_s(pod.role, 0.99)
    if slowest_s is None:
        return age_s > STUCK_UNMEASURED_S
    return age_s > STUCK_MARGIN * slowest_s + STUCK_SLACK_S
