"""Waiting best effort: by priority, then fair between tenants, and by deadline within a tenant."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

from tandem_routing.deadline_queue import Turn, turn_of
from tandem_routing.rank import Rank, Ranked, RankedShares

OVERDUE_SHARE = 0.05
"""Least share of the prefill pods' time for overdue best effort."""
OVERDUE_AFTER_S = 60.0
"""Best effort is overdue after its TTFT bound, but not before it has waited for this time."""
# A prompt whose time is not known counts as a long one.
_UNKNOWN_S = 1.0

W = TypeVar("W", bound=Ranked)


class SpareQueue(Generic[W]):
    """Requests that use the capacity that guaranteed ones leave."""

    def __init__(self, shares: RankedShares) -> None:
        self._shares = shares
        self._entered = 0
        self._lines: dict[Rank, dict[str, list[tuple[float, int, W]]]] = {}
        self._entries: dict[W, tuple[float, int, W]] = {}
        self._earned_s = 0.0
        self._earned_until_s: float | None = None

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._entries)

    def add(self, waiter: W) -> None:
        """Add a request."""
        self._entered += 1
        entry = self._entries[waiter] = (waiter.deadline_s, self._entered, waiter)
        lines, name = self._lines.setdefault(waiter.rank, {}), waiter.tenant.name
        if name not in lines:
            lines[name] = []
            self._shares.of(waiter.rank).came(name)
        insort(lines[name], entry)

    def remove(self, waiter: W) -> None:
        """Remove a request; do nothing if it is not in the queue."""
        entry = self._entries.pop(waiter, None)
        if entry is None:
            return
        lines, name = self._lines[waiter.rank], waiter.tenant.name
        del lines[name][bisect_left(lines[name], entry)]
        if not lines[name]:
            del lines[name]

    def serve(self, turn: Turn[W]) -> int:
        """Count a request that is about to leave for its place; return the tokens counted."""
        waiter, tokens = turn.waiter, turn.decode_load.tokens
        waiting = self._lines[waiter.rank].keys()
        self._shares.of(waiter.rank).serve(waiter.tenant, tokens, waiting=waiting)
        return tokens

    def waiting(self) -> Iterator[W]:
        """Yield all waiting requests, in the order in which they would be served."""
        for rank in sorted(self._lines):
            lines = self._lines[rank]
            if len(lines) == 1:
                for line in lines.values():
                    yield from (each for *_, each in line if not each.settled)
            else:
                yield from self._by_share(rank)

    def _by_share(self, rank: Rank) -> Iterator[W]:
        lines, shares = self._lines[rank], self._shares.of(rank)
        heads = [(shares.served(name), line[0][:2], 0, name) for name, line in lines.items()]
        heapify(heads)
        while heads:
            served, _, place, name = heads[0]
            waiter = lines[name][place][-1]
            if not waiter.settled:
                served += waiter.tokens / waiter.tenant.weight
                yield waiter
            if place + 1 < len(lines[name]):
                heapreplace(heads, (served, lines[name][place + 1][:2], place + 1, name))
            else:
                heappop(heads)

    def last(self) -> W | None:
        """Return the request that goes last, of the tenant with the longest line."""
        for rank in sorted(self._lines, reverse=True):
            for line in sorted(self._lines[rank].values(), key=_length, reverse=True):
                for *_, waiter in reversed(line):
                    if not waiter.settled:
                        return waiter
        return None

    def due(self, *, pods: int, now: float) -> Turn[W] | None:
        """Return the overdue request whose share of the time of `pods` has come; else `None`."""
        if not self._entries:
            self._earned_until_s = None
            return None
        oldest = min(self._firsts(), key=lambda waiter: waiter.deadline_s, default=None)
        if oldest is None or now < overdue_s(oldest):
            self._earned_until_s, self._earned_s = None, 0.0
            return None
        since_s = now if self._earned_until_s is None else self._earned_until_s
        self._earned_s += OVERDUE_SHARE * pods * (now - since_s)
        self._earned_until_s = now
        turn = turn_of(oldest)
        cost_s = _cost_s(turn)
        if self._earned_s < cost_s:
            return None
        # A due request that still waits for room earns no more than its own place.
        self._earned_s = cost_s
        return turn

    def spend(self, turn: Turn[W]) -> None:
        """Record that a due request got its place."""
        self._earned_s = max(0.0, self._earned_s - _cost_s(turn))

    def _firsts(self) -> Iterator[W]:
        """Yield the most urgent request of each tenant, the highest priority first."""
        for rank in sorted(self._lines):
            for line in self._lines[rank].values():
                first = next((each[-1] for each in line if not each[-1].settled), None)
                if first is not None:
                    yield first


def overdue_s(waiter: Ranked) -> float:
    """Return the time from which a request of best effort is overdue."""
    return max(waiter.deadline_s, waiter.entered_s + OVERDUE_AFTER_S)


def _length(line: list[tuple[float, int, W]]) -> float:
    """Return how long a tenant's line is for its weight."""
    return len(line) / line[0][-1].tenant.weight


def _cost_s(turn: Turn[W]) -> float:
    expected = turn.expected
    return (expected.service_s if turn.waiter.split else expected.whole_s) or _UNKNOWN_S
