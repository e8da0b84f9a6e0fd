"""The state of each role's pods, which of them count as capacity, and the start-up time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.observation import Observation, PodPhase, PodState
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning

KEPT_STARTS = 32


@dataclass(frozen=True, slots=True)
class Start:
    """The time of one pod from its creation to Ready."""

    pod: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Starts:
    """Measured starts per role, oldest first. A pod counts once, at its first Ready.

    Attributes:
        coming: pods that were never seen Ready.
        held: those of them that a scheduling gate held. Their start begins on their node: a wait
            for admission is no cold start.
    """

    measured: Mapping[Role, tuple[Start, ...]] = field(default_factory=dict)
    coming: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def learn(
        self,
        pods: tuple[PodState, ...],
        *,
        last_look_s: float | None,
        tuning: Tuning = TUNING,
    ) -> "Starts":
        """Return the starts after one more look at the pods.

        A pod's Ready condition shows when it became Ready last, not first. So only a watched start
        counts. `None` for the first look of all, which uses all pods except implausible starts.
        """
        known_since_s = None
        if last_look_s is not None:
            known_since_s = last_look_s - tuning.observe.start_look_slack_s
        longest_s = tuning.observe.longest_start_s
        measured = dict(self.measured)
        coming, held = [], []
        fastest: dict[Role, float] = {}
        for pod in sorted(pods, key=lambda p: (p.created_s, p.name)):
            new = known_since_s is None or pod.created_s > known_since_s
            if not new and pod.name not in self.coming:
                continue
            waited = bool(pod.gates) or pod.name in self.held
            if pod.ready_s is None:
                coming.append(pod.name)
                if waited:
                    held.append(pod.name)
                continue
            began_s = pod.scheduled_s if waited else None
            seconds = pod.ready_s - (pod.created_s if began_s is None else began_s)
            known = measured.get(pod.role, ())
            if not 0.0 < seconds <= longest_s or any(s.pod == pod.name for s in known):
                continue
            fastest[pod.role] = min(seconds, fastest.get(pod.role, seconds))
            measured[pod.role] = (*known, Start(pod.name, seconds))[-KEPT_STARTS:]
        if last_look_s is None:
            for role, least_s in fastest.items():
                most_s = tuning.observe.plausible_start_ratio * least_s
                measured[role] = tuple(s for s in measured[role] if s.seconds <= most_s)
        return Starts(measured=measured, coming=tuple(coming), held=tuple(held))

    def quantile_s(self, role: Role, share: float) -> float | None:
        """Return the start time that `share` of the role's starts stay under, or of all starts."""
        seconds = [start.seconds for start in self.measured.get(role, ())]
        if not seconds:
            seconds = [s.seconds for starts in self.measured.values() for s in starts]
        if not seconds:
            return None
        return sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]

    def expected_s(self, role: Role, *, tuning: Tuning = TUNING) -> float:
        """Return the P90 of the role's start time, or a minute before any measurement."""
        return self.quantile_s(role, 0.9) or tuning.observe.unmeasured_start_s


@dataclass(frozen=True, slots=True)
class RolePods:
    """One role's pods at one moment.

    Attributes:
        asked: replicas of the Deployment; `None` without one.
        held: replicas that hold or may claim their GPUs: asked or existing, terminating on top.
        stuck: pods that do not become Ready; they do not count as starting capacity.
    """

    role: Role
    asked: int | None
    ready: tuple[PodState, ...]
    starting: tuple[PodState, ...]
    stuck: tuple[PodState, ...]
    terminating: int
    held: int

    @property
    def sick(self) -> tuple[PodState, ...]:
        """Return stuck pods with their own fault: they have a node, and others like them serve.

        Returns none if they are many, because then further pods would also fail.
        """
        serving = {pod.revision for pod in self.ready}
        own = tuple(
            pod
            for pod in self.stuck
            if pod.phase is not PodPhase.UNSCHEDULED and pod.revision in serving
        )
        return own if len(own) <= max(1, len(self.ready) // 2) else ()

    @property
    def gated(self) -> tuple[PodState, ...]:
        """Return stuck pods with a scheduling gate."""
        return tuple(pod for pod in self.stuck if pod.gates)

    @property
    def blocked(self) -> bool:
        """Return whether further pods would be stuck like the present ones."""
        return len(self.stuck) > len(self.sick)

    @property
    def revision(self) -> str | None:
        """Return the pod template hash of most Ready pods, else that of the newest pod."""
        pods = self.ready or self.starting or self.stuck
        if not pods:
            return None
        hashes = [pod.revision for pod in pods]
        newest = max(pods, key=lambda pod: (pod.created_s, pod.name)).revision
        return max(set(hashes), key=lambda h: (hashes.count(h), h == newest, h))


def fleet(
    observation: Observation,
    role: Role,
    starts: Starts,
    now_s: float,
    *,
    tuning: Tuning = TUNING,
) -> RolePods:
    """Return the role's pods, sorted by their state."""
    pods = [pod for pod in observation.pods if pod.role is role]
    ready = tuple(pod for pod in pods if pod.phase is PodPhase.READY)
    coming = [p for p in pods if p.phase in (PodPhase.STARTING, PodPhase.UNSCHEDULED)]
    stuck = tuple(pod for pod in coming if _is_stuck(pod, starts, now_s, tuning=tuning))
    terminating = sum(1 for pod in pods if pod.phase is PodPhase.TERMINATING)
    asked = observation.replicas.get(role)
    return RolePods(
        role=role,
        asked=asked,
        ready=ready,
        starting=tuple(pod for pod in coming if pod not in stuck),
        stuck=stuck,
        terminating=terminating,
        held=max(asked or 0, len(ready) + len(coming)) + terminating,
    )


def _is_stuck(pod: PodState, starts: Starts, now_s: float, *, tuning: Tuning = TUNING) -> bool:
    # A pod that was Ready and restarts begins its start again, like one that was held back.
    began_s = (pod.created_s, pod.unready_s or 0.0, pod.scheduled_s or 0.0)
    age_s = now_s - max(began_s)
    if age_s <= tuning.observe.stuck_settle_s:
        return False
    if pod.problem is not None or pod.phase is PodPhase.UNSCHEDULED:
        return True
    slowest_s = starts.quantile_s(pod.role, 0.99)
    if slowest_s is None:
        return age_s > tuning.observe.stuck_unmeasured_s
    return age_s > tuning.observe.stuck_margin_ratio * slowest_s + tuning.observe.stuck_slack_s
