"""The queue of one class: by deadline while all can be on time, else fair between tenants.

Of each tenant, the most urgent request that can be on time goes first. While some will be late, the
tenant that was served least is first. So those are late whose tenant asks for more than its share.
With one tenant, this is its `DeadlineQueue`.
"""

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heapreplace, merge, nsmallest
from itertools import islice
from math import inf
from typing import Generic, Protocol, TypeVar

from tandem_routing.deadline_queue import (
    LOOKED_AT,
    NOBODY,
    DeadlineQueue,
    Next,
    Prospect,
    Turn,
    Waiting,
)
from tandem_routing.tenant_shares import Tenant, TenantShares


class Owned(Waiting, Protocol):
    """A waiting request with its tenant."""

    @property
    def tenant(self) -> Tenant:
        """Return the tenant."""


W = TypeVar("W", bound=Owned)


class FairQueue(Generic[W]):
    """Requests of several tenants. `shares` counts what each of these was served."""

    def __init__(self, shares: TenantShares) -> None:
        self._shares = shares
        self._lines: dict[str, DeadlineQueue[W]] = {}
        self._weights: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._lines.values()))

    def add(self, waiter: W) -> None:
        """Add a request."""
        name = waiter.tenant.name
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = DeadlineQueue()
            self._shares.came(name)
        self._weights[name] = waiter.tenant.weight
        line.add(waiter)

    def remove(self, waiter: W) -> None:
        """Remove a request, wherever it is; do nothing if it is not in the queue."""
        name = waiter.tenant.name
        line = self._lines.get(name)
        if line is not None:
            line.remove(waiter)
            if not len(line):
                del self._lines[name], self._weights[name]

    @property
    def tenants(self) -> int:
        """Return the number of tenants that wait."""
        return len(self._lines)

    def serve(self, turn: Turn[W]) -> int:
        """Count a request that is about to leave for its place; return the tokens counted."""
        tokens = turn.decode_load.tokens
        self._shares.serve(turn.waiter.tenant, tokens, waiting=self._lines.keys())
        return tokens

    def pass_by(self, turn: Turn[W]) -> int:
        """Count a request that leaves as it comes, as if it had been added; return its tokens."""
        name, tokens = turn.waiter.tenant.name, turn.decode_load.tokens
        if name not in self._lines:
            self._shares.came(name)
        self._shares.serve(turn.waiter.tenant, tokens, waiting={name, *self._lines})
        return tokens

    def reconsider(self, now: float) -> None:
        """Check late requests again if their bound has not passed yet."""
        for line in self._lines.values():
            line.reconsider(now)

    def next(self, prospect: Prospect, *, now: float, apart_from: Collection[W] = ()) -> Next[W]:
        """Return the next request: one that will be on time, else a late one.

        A late request goes first if its tenant is too far behind that of the other one. Requests
        of `apart_from` wait for one certain pod, and are left out.
        """
        if len(self._lines) < 2:
            for line in self._lines.values():
                return line.next(prospect, now=now, apart_from=apart_from)
            return NOBODY
        start_s = prospect.start_s if prospect.elsewhere_s is None else prospect.elsewhere_s
        looked_at = self._least_served()
        for name in looked_at:
            self._lines[name].set_late_aside(start_s, now, apart_from)
        late = self._first_late(looked_at, now, apart_from)
        first, all_on_time = self._by_deadline(looked_at, prospect, now, apart_from)
        excess: tuple[Turn[W], ...] = ()
        if not all_on_time:
            first, excess = self._by_share(looked_at, prospect, now, apart_from)
        elif late is None and not apart_from:
            self._shares.forgive(looked_at)
        if first is not None and (late is None or not self._is_ahead(first, late)):
            return Next(first, late=False, excess=excess)
        return Next(late, late=True, excess=excess)

    def slack_s(self, prospect: Prospect, *, now: float) -> float:
        """Return how long the pods could do other work without making a request late."""
        least_s, start_s = inf, prospect.start_s
        for turn in self._urgent(self._least_served(), now):
            spare_s = turn.waiter.deadline_s - start_s - turn.to_first_s
            if spare_s >= 0.0:
                least_s = min(least_s, spare_s)
                start_s += turn.expected.service_s / prospect.pods
        return least_s

    def shed(self, start_s: float, *, now: float) -> W | None:
        """Return the late request that is shed first; `None` if none may be.

        A tenant with no more than its share of the queue loses none for another one.
        """
        late = (self._lines[name].shed(start_s, now=now) for name in self._longest())
        return next((waiter for waiter in late if waiter is not None), None)

    def newly_late(self) -> Iterator[W]:
        """Yield the requests that were set aside as late since the last call."""
        for line in self._lines.values():
            yield from line.newly_late()

    def work_s(self, now: float) -> float:
        """Return the prefill of all requests that were not found late.

        The requests that are not looked at are taken to be as long as the others.
        """
        turns = list(self._urgent(self._least_served(), now))
        looked_at_s = sum(turn.expected.service_s for turn in turns)
        count = sum(line.urgent_span()[0] for line in self._lines.values())
        return looked_at_s * count / max(1, len(turns))

    def newest(self) -> W | None:
        """Return the newest request of the tenant with the longest line; `None`: none waits."""
        return next((self._lines[name].newest() for name in self._longest()), None)

    def _longest(self) -> list[str]:
        """Return the tenants with at least their share of the queue, the longest line first."""
        lengths = {name: len(line) / self._weights[name] for name, line in self._lines.items()}
        share = len(self) / sum(self._weights.values()) if lengths else 0.0
        over = [name for name, length in lengths.items() if length >= share]
        return sorted(over, key=lambda name: lengths[name], reverse=True)

    def _least_served(self) -> list[str]:
        """Return the tenants that are looked at."""
        if len(self._lines) <= LOOKED_AT:
            return list(self._lines)
        return nsmallest(LOOKED_AT, self._lines, key=self._shares.served)

    def _urgent(self, names: Collection[str], now: float) -> Iterator[Turn[W]]:
        """Yield the most urgent requests of these tenants."""
        lines = [self._lines[name].urgent(now) for name in names]
        return islice(merge(*lines, key=lambda turn: turn.waiter.deadline_s), LOOKED_AT)

    def _by_deadline(
        self, names: Collection[str], prospect: Prospect, now: float, apart_from: Collection[W]
    ) -> tuple[Turn[W] | None, bool]:
        """Return the most urgent request, and whether all will be on time by deadline.

        The requests that are not looked at are taken to be as long as the others.
        """
        first: Turn[W] | None = None
        start_s, turns = prospect.start_s, list(self._urgent(names, now))
        for turn in turns:
            if turn.waiter not in apart_from:
                if start_s + turn.to_first_s > turn.waiter.deadline_s:
                    return None, False
                first = first or turn
            start_s += turn.expected.service_s / prospect.pods
        if len(turns) < LOOKED_AT:
            return first, True
        spans = [line.urgent_span() for line in self._lines.values()]
        each_s = (start_s - prospect.start_s) / len(turns)
        end_s = prospect.start_s + each_s * sum(count for count, _ in spans)
        return first, end_s <= max(deadline_s for _, deadline_s in spans)

    def _by_share(
        self, names: Collection[str], prospect: Prospect, now: float, apart_from: Collection[W]
    ) -> tuple[Turn[W] | None, tuple[Turn[W], ...]]:
        """Return the first request that will be on time, and those that will be late.

        The order is that in which tenants would be served from now on.
        """
        heads: list[tuple[float, float, str, Turn[W]]] = []
        rest = {name: self._lines[name].urgent(now) for name in names}
        for name, turns in rest.items():
            for turn in islice(turns, 1):
                heads.append((self._shares.served(name), turn.waiter.deadline_s, name, turn))
        heapify(heads)
        first: Turn[W] | None = None
        excess: list[Turn[W]] = []
        start_s, seen = prospect.start_s, 0
        while heads and seen < LOOKED_AT:
            seen += 1
            served, deadline_s, name, turn = heads[0]
            is_apart = turn.waiter in apart_from
            if not is_apart and start_s + turn.to_first_s > deadline_s:
                excess.append(turn)
            else:
                first = first or (None if is_apart else turn)
                start_s += turn.expected.service_s / prospect.pods
                served += turn.decode_load.tokens / turn.waiter.tenant.weight
            following = next(rest[name], None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (served, following.waiter.deadline_s, name, following))
        return first, tuple(excess)

    def _first_late(
        self, names: Collection[str], now: float, apart_from: Collection[W]
    ) -> Turn[W] | None:
        """Return the first late request of the tenant that was served least."""
        for name in sorted(names, key=self._shares.served):
            turn = self._lines[name].first_late(now, apart_from)
            if turn is not None:
                return turn
        return None

    def _is_ahead(self, one: Turn[W], other: Turn[W]) -> bool:
        """Return whether the tenant of one request was served too much more than the other's."""
        served = self._shares.served
        more = served(one.waiter.tenant.name) - served(other.waiter.tenant.name)
        return more > self._shares.ahead
