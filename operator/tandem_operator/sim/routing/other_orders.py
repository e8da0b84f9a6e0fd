"""Orders that the live router does not have, and that deadline order is compared with.

What is expected of a request is asked once, when it comes.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from typing import Generic, TypeVar

from tandem_routing.deadline_queue import Next, Prospect, Turn, Waiting, turn_of

W = TypeVar("W", bound=Waiting)


class Fifo(Generic[W]):
    """First come, first served; a newcomer that would be late there may go elsewhere."""

    def __init__(self) -> None:
        self._turns: dict[W, Turn[W]] = {}
        self._work_s = 0.0

    def add(self, waiter: W) -> None:
        """Let one more wait."""
        turn = self._turns[waiter] = turn_of(waiter)
        self._work_s += turn.expected.service_s

    def remove(self, waiter: W) -> None:
        """Let one leave."""
        self._work_s -= self._turns.pop(waiter).expected.service_s

    def reconsider(self, now: float) -> None:
        """Nobody is set aside."""

    def next(self, prospect: Prospect, *, now: float, apart_from: Collection[W] = ()) -> Next[W]:
        """Return what goes next, and the newcomer where it would be late."""
        del now
        first = next(
            (turn for waiter, turn in self._turns.items() if waiter not in apart_from), None
        )
        if first is None:
            return Next(None, late=False)
        last = self._turns[next(reversed(self._turns))]
        end_s = prospect.start_s + self._work_s / prospect.pods + last.expected.rest_s
        excess = (last,) if end_s > last.waiter.deadline_s else ()
        return Next(first, late=False, excess=excess)


class Goodput(Generic[W]):
    """By deadline, but while not all can be on time, the longest prompts give way."""

    def __init__(self) -> None:
        self._entered = 0
        self._urgent: list[tuple[float, int, Turn[W]]] = []
        self._late: dict[W, Turn[W]] = {}
        self._entries: dict[W, tuple[float, int, Turn[W]]] = {}

    def add(self, waiter: W) -> None:
        """Let one more wait."""
        self._entered += 1
        entry = self._entries[waiter] = (waiter.deadline_s, self._entered, turn_of(waiter))
        insort(self._urgent, entry)

    def remove(self, waiter: W) -> None:
        """Let one leave."""
        entry = self._entries.pop(waiter)
        if self._late.pop(waiter, None) is None:
            del self._urgent[bisect_left(self._urgent, entry)]

    def reconsider(self, now: float) -> None:
        """Late stays late."""

    def next(self, prospect: Prospect, *, now: float, apart_from: Collection[W] = ()) -> Next[W]:
        """Return what goes next, and what gives way."""
        del now
        self._set_late_aside(prospect)
        kept: list[tuple[float, int, Turn[W]]] = []
        excess: list[Turn[W]] = []
        work_s = 0.0
        for entry in self._urgent:
            kept.append(entry)
            start_s = prospect.start_s + work_s / prospect.pods
            work_s += entry[2].expected.service_s
            if start_s + entry[2].to_first_s > entry[0]:
                victim = max(kept, key=lambda each: (each[2].expected.service_s, each[0], each[1]))
                kept.remove(victim)
                work_s -= victim[2].expected.service_s
                excess.append(victim[2])
        first = next((turn for *_, turn in kept if turn.waiter not in apart_from), None)
        if first is not None:
            return Next(first, late=False, excess=tuple(excess))
        late = (turn for waiter, turn in self._late.items() if waiter not in apart_from)
        return Next(next(late, None), late=True, excess=tuple(excess))

    def _set_late_aside(self, prospect: Prospect) -> None:
        """Those that would be late if they went next, at a decode pod too where one may help."""
        elsewhere_s = prospect.elsewhere_s
        start_s = prospect.start_s if elsewhere_s is None else elsewhere_s
        still = []
        for entry in self._urgent:
            if start_s + entry[2].to_first_s > entry[0]:
                self._late[entry[2].waiter] = entry[2]
            else:
                still.append(entry)
        self._urgent = still
