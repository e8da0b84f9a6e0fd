"""Which waiting requests are refused, because they will be late whatever happens.

The queue sets a request aside once it would be late even if it went next. That alone refuses
nobody: this estimate must have been right about the last requests of the class that were set
aside. None of them may have been on time in the end.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from math import ceil
from typing import Generic, Protocol, TypeVar

from tandem_routing.deadline_queue import Prospect, turn_of
from tandem_routing.rank import Ranked

PROOFS = 100
"""Requests in a row that were set aside and were late, before the next one is refused.

With none of 100 on time, the chance of the next one is below 3 % (with 95 % confidence).
"""
PROBED_EVERY = 20
"""Of so many requests that could be refused, one is served, so that the proof is renewed."""
PROVES_FOR_S = 600.0
"""How long a request is proof: fleets and traffic change."""


class Refusable(Ranked, Protocol):
    """A waiting request with its class."""

    @property
    def slo_class(self) -> str | None:
        """Return the name of its class."""

    @property
    def refuse_late(self) -> bool:
        """Return whether it is refused rather than served late."""


W = TypeVar("W", bound=Refusable)


class Foresight(Generic[W]):
    """What came of requests that were set aside as late, class by class."""

    def __init__(self) -> None:
        self._late_s: dict[str, deque[float]] = {}
        self._asked: dict[str, int] = {}
        # Those that were not refused, and whether nothing more is to be learned if they are late.
        self._served: dict[W, bool] = {}
        self._due: list[tuple[float, int, W]] = []
        self._count = count()

    def refused(self, late: Iterable[W], *, now: float) -> list[W]:
        """Return those to refuse, of the waiting requests that were just set aside as late.

        The caller tells `ended` of every request.
        """
        self._see_due(now)
        found = []
        for waiter in late:
            if not waiter.refuse_late or waiter.settled or waiter in self._served:
                continue
            # A prompt too long for its bound is made late by nobody: it proves nothing.
            told = turn_of(waiter).to_first_s > waiter.deadline_s - waiter.entered_s
            if not told and self._proven(waiter.slo_class or "", now):
                found.append(waiter)
                continue
            self._served[waiter] = told
            heappush(self._due, (waiter.deadline_s, next(self._count), waiter))
        return found

    def _see_due(self, now: float) -> None:
        """Learn from those that still wait when their bound passes."""
        while self._due and self._due[0][0] < now:
            waiter = heappop(self._due)[2]
            if self._served.get(waiter) is False and not waiter.settled:
                self._served[waiter] = True
                self._saw(waiter, on_time=False, now=now)

    def ended(self, waiter: W, *, first_token_s: float | None, now: float) -> None:
        """Learn from a request that has ended whether one that was set aside can be on time."""
        told = self._served.pop(waiter, None)
        if told is None:
            return
        while self._due and self._due[0][2] not in self._served:
            heappop(self._due)
        if first_token_s is not None and first_token_s <= waiter.deadline_s:
            self._saw(waiter, on_time=True, now=now)
        elif not told and (first_token_s is not None or now > waiter.deadline_s):
            self._saw(waiter, on_time=False, now=now)

    def _proven(self, slo_class: str, now: float) -> bool:
        """Return whether the next one of a class is refused."""
        late_s = self._late_s.get(slo_class)
        while late_s and late_s[0] < now - PROVES_FOR_S:
            late_s.popleft()
        if late_s is None or len(late_s) < PROOFS:
            return False
        asked = self._asked[slo_class] = self._asked.get(slo_class, 0) + 1
        return asked % PROBED_EVERY != 0

    def _saw(self, waiter: W, *, on_time: bool, now: float) -> None:
        slo_class = waiter.slo_class or ""
        if on_time:
            self._late_s.pop(slo_class, None)
        else:
            self._late_s.setdefault(slo_class, deque(maxlen=PROOFS)).append(now)


def retry_after_s(waiter: Refusable, prospect: Prospect, *, work_s: float, now: float) -> int:
    """Return when all that waits now would let such a request be on time.

    `work_s` is the prefill of all requests that can still be on time.
    """
    bound_s = waiter.deadline_s - waiter.entered_s
    free_s = prospect.start_s + work_s / prospect.pods - now
    return max(1, ceil(free_s + turn_of(waiter).to_first_s - bound_s))
