"""The sleep of a pool: both roles at zero, or none. Any request wakes both.

A pool sleeps once nothing has come and nothing is inside for as long as its user says. Where pauses
lately ended soon after that, it is held awake for a little longer: for as long as holding costs no
more than a start does (the ski-rental bound), so no pause costs more than twice the least. A
schedule keeps it awake too, and wakes it one start before it begins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

from tandem_operator.core.observation import PodPhase, PodState, RouterReport
from tandem_operator.core.observe.arrivals import Arrivals, best_effort_queued
from tandem_operator.core.observe.freshness import Freshness
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Wake:
    """One wake. Times are epoch seconds, and `None` until they come.

    Attributes:
        asked_s: arrival of the first request at the sleeping pool.
        decided_s: when Tandem asked for both roles.
        waited: the most requests that waited at once, without best effort; 1 at least.
        scheduled_s, ready_s: when each role first had a pod with a node, and a Ready pod.
        first_token_s: first token of the first held request, as a router saw it.
    """

    asked_s: float
    decided_s: float
    waited: int = 1
    scheduled_s: float | None = None
    ready_s: float | None = None
    first_token_s: float | None = None

    @property
    def over(self) -> bool:
        """Return whether the pool serves again, even if its requests are gone."""
        return self.ready_s is not None


@dataclass(frozen=True, slots=True)
class Pauses:
    """The latest pauses: their number, and the number that a longer hold would span."""

    hold_s: float
    break_even_s: float
    known: int = 0
    spanned: int = 0

    def held_longer(self, spec: PoolSpec) -> bool:
        """Return whether the pool is held awake for longer than its spec says."""
        return spec.sleep_after_s is not None and self.hold_s > spec.sleep_after_s


@dataclass(frozen=True, slots=True)
class Rest:
    """The memory of a pool's pauses; empty if it never sleeps.

    Attributes:
        seen_s: up to when arrivals are known.
        busy_s: until when something came or was inside, or may have.
        asleep_since_s: since when both roles are at zero; `None` where they are not to be.
        lasting: lengths of the latest pauses that were longer than its user's bound.
        wake: the latest one.
        wakes: how many there were.
        called_s: when a schedule last woke the pool; `None` once both roles are Ready.
    """

    seen_s: float | None = None
    busy_s: float | None = None
    asleep_since_s: float | None = None
    lasting: tuple[float, ...] = ()
    wake: Wake | None = None
    wakes: int = 0
    called_s: float | None = None

    @property
    def asleep(self) -> bool:
        """Return whether both roles should be at zero."""
        return self.asleep_since_s is not None

    def pauses(
        self, spec: PoolSpec, *, lead_s: Mapping[Role, float], late_gpu_s: float, tuning: Tuning
    ) -> Pauses:
        """Return how long to hold the pool awake, by the cost of a start and recent pauses."""
        after_s = spec.sleep_after_s or 0.0
        gpus = {
            role: max(1, each.min_replicas) * each.gpus_per_replica
            for role, each in spec.roles.items()
        }
        start_gpu_s = sum(gpus[role] * lead_s[role] for role in Role)
        even_s = min(
            tuning.guard.longest_break_even_s,
            (start_gpu_s + late_gpu_s * self._usually_waited) / max(1, sum(gpus.values())),
        )
        beyond = [length_s - after_s for length_s in self.lasting if length_s > after_s]
        spanned = [length_s for length_s in beyond if length_s < even_s]
        saved_s = sum(even_s - length_s for length_s in spanned)
        lost_s = even_s * (len(beyond) - len(spanned))
        longer = len(beyond) >= tuning.guard.least_pauses and saved_s > lost_s
        return Pauses(after_s + even_s * longer, even_s, len(beyond), len(spanned))

    @property
    def _usually_waited(self) -> int:
        return 1 if self.wake is None else max(1, self.wake.waited)

    def look(
        self,
        spec: PoolSpec,
        *,
        reports: Iterable[RouterReport],
        arrivals: Arrivals,
        fresh: Freshness,
        fleets: Mapping[Role, RolePods],
        pods: Iterable[PodState],
        pauses: Pauses,
        now_s: float,
        called: bool = False,
        tuning: Tuning = TUNING,
    ) -> "Rest":
        """The rest after one more look; `asleep` then says what holds from now on.

        `called`: a schedule is in force, or about to begin.
        """
        if spec.sleep_after_s is None:
            return Rest()
        reports = tuple(reports)
        came = _seconds(reports, now_s=now_s, tuning=tuning)
        asked = [fleets[role].asked for role in Role]
        at_zero = asked == [0, 0]
        spare = best_effort_queued(spec.classes, reports)
        inside = sum(r.queued_requests + r.prefill_requests + r.decode_requests for r in reports)
        rest = self._not_to_come(now_s)._seen(
            came, arrivals, inside=inside, now_s=now_s, spec=spec, tuning=tuning
        )
        pods = tuple(pods)
        rest = rest._progress(pods, reports, latest_s=now_s + tuning.observe.clock_skew_s)
        rest = rest._answered(pods, called=called)
        if not spec.may_sleep or None in asked:
            return replace(rest, asleep_since_s=None)
        if not at_zero:
            idle_s = 0.0 if rest.busy_s is None else now_s - rest.busy_s
            sure = fresh.shrink and arrivals.complete and not inside
            falls = sure and idle_s >= pauses.hold_s and not called
            return replace(rest._waiting(inside - spare), asleep_since_s=now_s if falls else None)
        since_s = now_s if rest.asleep_since_s is None else rest.asleep_since_s
        under_way = None if rest.asleep or rest.wake is None or rest.wake.over else rest.wake
        if under_way is None:
            came = [second for second in came if second > floor(since_s)]
        # A request that came and is gone wanted an answer: the next one must not wait as long.
        lately = bool(came) and now_s - came[-1] < spec.sleep_after_s
        if not inside and not lately:
            wakes = called and spec.mode is Mode.AUTO
            return rest._called(now_s) if wakes else replace(rest, asleep_since_s=since_s)
        if under_way is not None or spec.mode is not Mode.AUTO:
            # The sleep was not possible yet, or will never be.
            return replace(rest._waiting(inside - spare), asleep_since_s=None)
        asked_s = min(now_s, float(came[0])) if came else now_s
        wake = Wake(asked_s=asked_s, decided_s=now_s, waited=max(1, inside - spare))
        return replace(rest, asleep_since_s=None, wake=wake, wakes=self.wakes + 1)

    def _called(self, now_s: float) -> "Rest":
        """Woken by a schedule, now or before."""
        called_s = now_s if self.called_s is None else self.called_s
        return replace(self, asleep_since_s=None, called_s=called_s)

    def _answered(self, pods: Iterable[PodState], *, called: bool) -> "Rest":
        """With what came of a wake by a schedule: over once both roles are Ready."""
        since_s = self.called_s
        if since_s is None:
            return self
        new = [pod for pod in pods if pod.created_s >= floor(since_s)]
        over = not called or _both(new, _ready_s) is not None
        return replace(self, called_s=None) if over else self

    def _waiting(self, waiting: int) -> "Rest":
        wake = self.wake
        if wake is None or wake.over:
            return self
        return replace(self, wake=replace(wake, waited=max(wake.waited, waiting)))

    def _not_to_come(self, now_s: float) -> "Rest":
        """Return the rest without times after `now_s`: a clock may have been set back."""
        busy_s, since_s = self.busy_s, self.asleep_since_s
        return replace(
            self,
            busy_s=None if busy_s is None else min(busy_s, now_s),
            asleep_since_s=None if since_s is None else min(since_s, now_s),
        )

    def _seen(
        self,
        came: Sequence[int],
        arrivals: Arrivals,
        *,
        inside: int,
        now_s: float,
        spec: PoolSpec,
        tuning: Tuning,
    ) -> "Rest":
        """Return the rest with new arrivals. A time without reports may have been busy."""
        busy_s, lasting = self.busy_s, self.lasting
        if arrivals.complete and arrivals.known_s:
            known_from_s = float(arrivals.end_s - arrivals.known_s)
            unseen = self.seen_s is None or self.seen_s < known_from_s
            if unseen and not self.asleep:
                busy_s = max(busy_s or 0.0, known_from_s)
        since = [second for second in came if busy_s is None or second > floor(busy_s)]
        if since:
            pause_s = 0.0 if busy_s is None else since[0] - busy_s
            if pause_s > (spec.sleep_after_s or 0.0):
                lasting = (*lasting, pause_s)[-tuning.guard.pauses_kept :]
            busy_s = float(since[-1])
        if inside:
            busy_s = now_s
        seen_s = float(arrivals.end_s) if arrivals.complete else self.seen_s
        return replace(self, seen_s=seen_s, busy_s=busy_s, lasting=lasting)

    def _progress(
        self, pods: Iterable[PodState], reports: Sequence[RouterReport], *, latest_s: float
    ) -> "Rest":
        """Return the rest with the progress of the wake; no time is after `latest_s`."""
        wake = self.wake
        if wake is None or wake.first_token_s is not None:
            return self
        new = [pod for pod in pods if pod.created_s >= floor(wake.decided_s)]
        if wake.scheduled_s is None:
            wake = replace(wake, scheduled_s=_both(new, _scheduled_s))
        if wake.ready_s is None:
            wake = replace(wake, ready_s=_both(new, _ready_s))
        tokens = [r.woken_token_s for r in reports if r.woken_token_s is not None]
        first_s = min((each for each in tokens if wake.decided_s <= each <= latest_s), default=None)
        return replace(self, wake=replace(wake, first_token_s=first_s))


def _seconds(reports: Iterable[RouterReport], *, now_s: float, tuning: Tuning) -> list[int]:
    """Return the seconds in which any request of any class came, in order.

    A router's clock may be a little fast. A time that is further ahead is ignored.
    """
    most_s = now_s + tuning.observe.clock_skew_s
    found = set[int]()
    for report in reports:
        found.update(row.second for row in report.arrivals if any(row.requests))
        found.update(report.best_effort)
    return sorted({min(second, floor(now_s)) for second in found if second <= most_s})


def _scheduled_s(pod: PodState) -> float | None:
    if pod.phase is PodPhase.UNSCHEDULED:
        return None
    return pod.created_s if pod.scheduled_s is None else pod.scheduled_s


def _ready_s(pod: PodState) -> float | None:
    return pod.ready_s if pod.phase is PodPhase.READY else None


def _both(pods: Iterable[PodState], moment: Callable[[PodState], float | None]) -> float | None:
    """Return when both roles had their first pod at that point; `None` while one has none."""
    first: dict[Role, float] = {}
    for pod in pods:
        at_s = moment(pod)
        if at_s is not None:
            first[pod.role] = min(at_s, first.get(pod.role, at_s))
    return max(first.values()) if len(first) == len(Role) else None
