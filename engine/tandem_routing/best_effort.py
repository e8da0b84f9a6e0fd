"""The time and room that best effort can use without delaying expected guaranteed requests.

The router never stops a running request of best effort, so it checks this before the request
begins. The expected need of guaranteed requests is their highest recent need, as if they were
alone.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

from tandem_routing.deadline_queue import Turn
from tandem_routing.outstanding import NO_LOAD, Load, Outstanding
from tandem_routing.pairing import Coming

LOAD_SEEN_S = 120
"""Seconds for which the highest recent streams of guaranteed requests are expected again."""
BACKLOG_SEEN_S = 10
"""Seconds for which their highest recent backlog is expected again: a prompt is soon computed."""
MARGIN_SHARE = 0.8
"""Share of the time that guaranteed requests can wait for a pod which best effort may use."""
# The share of recent guaranteed requests that can wait for less than the assumed time.
_TIGHTER = 0.05
_MARGINS = 256

P = TypeVar("P", bound=Outstanding)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Need:
    """The prefill work that guaranteed requests are expected to need.

    Attributes:
        margin_s: how long a new guaranteed request can wait for a pod.
        work_s: seconds of prefill by which their backlog may still grow.
    """

    margin_s: float = inf
    work_s: float = 0.0

    def leaves(
        self, turn: Turn[Any], pods: Sequence[P], room: Sequence[P], *, routers: int, now: float
    ) -> list[P]:
        """Return the pods of `room` where best effort makes no expected guaranteed request late.

        `pods` are all prefill pods. They must be able to compute the expected backlog within the
        time that a new request can wait. Each other router is assumed to have the same load.
        """
        if self.margin_s == inf:
            return list(room)
        free_s = [self._free_s(pod, routers=routers, now=now) for pod in pods]
        spare_s = sum(free_s) - routers * self.work_s
        found = []
        for pod in room:
            work_s = routers * turn.expected.work_s(alone=not pod.requests, at=pod.name)
            if min(work_s, self._free_s(pod, routers=routers, now=now)) <= spare_s:
                found.append(pod)
        return found

    def _free_s(self, pod: Outstanding, *, routers: int, now: float) -> float:
        return max(0.0, self.margin_s - routers * (pod.free_s(now) - now))


class Guaranteed:
    """The recent need of guaranteed requests, as one router saw it."""

    def __init__(self) -> None:
        self._load = NO_LOAD
        self._loads = _Peaks[Load](_most, seen_s=LOAD_SEEN_S)
        self._backlog_s = 0.0
        self._backlog_at_s = -inf
        self._backlogs = _Peaks[float](max, seen_s=BACKLOG_SEEN_S)
        self._margins: deque[tuple[float, float]] = deque(maxlen=_MARGINS)
        self._margin_s = inf
        self._asked_s = -inf

    def came(self, turn: Turn[Any], *, pods: int, now: float, wake_s: float = 0.0) -> None:
        """Take note of one that came just now, to so many prefill pods.

        `wake_s`: the part of its time that it has since a pool wakes for it.
        """
        self._work_off(pods=pods, now=now)
        self._backlog_s += turn.expected.service_s
        self._backlogs.see(self._backlog_s, now=now)
        margin_s = turn.waiter.deadline_s - wake_s - now - turn.to_first_s
        if margin_s > 0.0:
            self._margins.append((now, margin_s))

    def need(self, now: float, *, pods: int) -> Need:
        """Return the expected need from now on."""
        if now >= self._asked_s + 1.0:
            self._asked_s = now
            known = sorted(
                margin_s for came_s, margin_s in self._margins if came_s > now - LOAD_SEEN_S
            )
            self._margin_s = MARGIN_SHARE * known[int(_TIGHTER * len(known))] if known else inf
        self._work_off(pods=pods, now=now)
        most_s = self._backlogs.most(now)
        return Need(self._margin_s, max(0.0, (most_s or 0.0) - self._backlog_s))

    def began(self, load: Load, *, now: float) -> None:
        """Record a request that was admitted and adds `load` to its decode pod."""
        self._load += load
        self._loads.see(self._load, now=now)

    def ended(self, load: Load) -> None:
        """Record that a request left its decode pod."""
        self._load -= load

    def missing(self, now: float) -> Load:
        """Return the highest recent guaranteed load of decode pods, minus the present one.

        Best effort leaves room for this difference.
        """
        most = self._loads.most(now)
        return NO_LOAD if most is None else _most(most, self._load) - self._load

    def _work_off(self, *, pods: int, now: float) -> None:
        """Reduce the backlog that guaranteed requests would have had alone by the time passed."""
        passed_s = max(0.0, now - self._backlog_at_s)
        self._backlog_s = max(0.0, self._backlog_s - pods * passed_s) if self._backlog_s else 0.0
        self._backlog_at_s = now


class _Peaks(Generic[T]):
    """The maximum over the last `seen_s` seconds, second by second."""

    def __init__(self, most: Callable[[T, T], T], *, seen_s: int) -> None:
        self._most = most
        self._seen_s = seen_s
        self._rows: deque[tuple[int, T]] = deque()
        self._known: tuple[int, T | None] = (-1, None)

    def see(self, value: T, *, now: float) -> None:
        """Record the present value."""
        second, rows = int(now), self._rows
        if rows and rows[-1][0] == second:
            rows[-1] = second, self._most(rows[-1][1], value)
        else:
            rows.append((second, value))
        while rows[0][0] <= second - self._seen_s:
            rows.popleft()

    def most(self, now: float) -> T | None:
        """Return the maximum, computed once a second; `None` if no value was recorded."""
        second = int(now)
        if self._known[0] != second:
            most: T | None = None
            for seen, value in self._rows:
                if seen > second - self._seen_s:
                    most = value if most is None else self._most(most, value)
            self._known = second, most
        return self._known[1]


def _most(one: Load, other: Load) -> Load:
    return Load(
        tokens=max(one.tokens, other.tokens),
        streams=max(one.streams, other.streams),
        output_tokens=max(one.output_tokens, other.output_tokens),
    )


@dataclass(frozen=True, slots=True)
class WithReserve:
    """The admitted load, plus the expected need of guaranteed requests."""

    coming: Coming
    reserve: Load

    def to(self, revision: str, /) -> Load:
        """Return the whole load that decode pods of `revision` may get."""
        return self.coming.to(revision) + self.reserve
