"""The queue of requests of several classes: which request goes next.

Guaranteed classes go by deadline while all can be on time, and else by priority. Best effort goes
last, in the order of its deadlines. Overdue best effort gets a share of the prefill pods' time, so
that it never starves. Within one rank, the service is fair between tenants.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from math import inf
from typing import Generic, TypeVar

from tandem_routing.deadline_queue import Next, Prospect, Turn
from tandem_routing.fair_queue import FairQueue
from tandem_routing.rank import FIRST, Rank, Ranked, RankedShares
from tandem_routing.spare_queue import SpareQueue

_SPARE_LOOKED_AT = 8

W = TypeVar("W", bound=Ranked)


class ClassQueue(Generic[W]):
    """Requests that wait for one kind of pod, by class."""

    def __init__(self, shares: RankedShares | None = None) -> None:
        self._shares = shares or RankedShares()
        self._tiers: dict[Rank, FairQueue[W]] = {FIRST: FairQueue(self._shares.of(FIRST))}
        self._guaranteed = [self._tiers[FIRST]]
        self._spare = SpareQueue[W](self._shares)

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._guaranteed)) + len(self._spare)

    def add(self, waiter: W) -> None:
        """Add a request."""
        if waiter.rank.best_effort:
            self._spare.add(waiter)
            return
        tier = self._tiers.get(waiter.rank)
        if tier is None:
            tier = self._tiers[waiter.rank] = FairQueue(self._shares.of(waiter.rank))
            self._guaranteed = [self._tiers[rank] for rank in sorted(self._tiers)]
        tier.add(waiter)

    def remove(self, waiter: W) -> None:
        """Remove a request, wherever it is; do nothing if it is not in the queue."""
        if waiter.rank.best_effort:
            self._spare.remove(waiter)
        elif (tier := self._tiers.get(waiter.rank)) is not None:
            tier.remove(waiter)

    def serve(self, turn: Turn[W]) -> int:
        """Count a request that is about to leave for its place; return the tokens counted."""
        rank = turn.waiter.rank
        if rank.best_effort:
            return self._spare.serve(turn)
        return self._tiers[rank].serve(turn)

    def pass_by(self, turn: Turn[W]) -> int:
        """Count a request of the first rank that leaves as it comes; return the tokens counted."""
        return self._tiers[FIRST].pass_by(turn)

    def reconsider(self, now: float) -> None:
        """Check late requests again if their bound has not passed yet."""
        for tier in self._guaranteed:
            tier.reconsider(now)

    def next(self, prospect: Prospect, *, now: float, apart_from: Collection[W] = ()) -> Next[W]:
        """Return the next guaranteed request: one that will be on time, else the first late one.

        Of the requests on time, the most urgent goes first, unless it would make one of a higher
        priority late. Requests of `apart_from` wait for one certain pod, and are left out.
        """
        if len(self._guaranteed) == 1:
            return self._guaranteed[0].next(prospect, now=now, apart_from=apart_from)
        tiers = [tier for tier in self._guaranteed if len(tier)]
        found = [tier.next(prospect, now=now, apart_from=apart_from) for tier in tiers]
        excess = tuple(turn for each in found for turn in each.excess)
        chosen, slack_s = None, inf
        for tier, each in zip(tiers, found, strict=True):
            turn = None if each.late else each.first
            if turn is not None and (
                chosen is None
                or (
                    turn.waiter.deadline_s < chosen.waiter.deadline_s
                    and turn.expected.service_s <= slack_s * prospect.pods
                )
            ):
                chosen = turn
            slack_s = min(slack_s, tier.slack_s(prospect, now=now))
        if chosen is not None:
            return Next(chosen, late=False, excess=excess)
        late = next((each.first for each in found if each.first is not None), None)
        return Next(late, late=True, excess=excess)

    def spare(self) -> Iterator[W]:
        """Yield the best effort that can go if no guaranteed request needs the time, in order.

        If the first one is too long, a later one may be short enough.
        """
        return islice(self._spare.waiting(), _SPARE_LOOKED_AT)

    def due(self, *, pods: int, now: float) -> Turn[W] | None:
        """Return the overdue best effort whose share of the time of `pods` has come; else `None`.

        It goes before all other requests. The caller that places it calls `took`.
        """
        return self._spare.due(pods=pods, now=now)

    def took(self, turn: Turn[W]) -> None:
        """Record that a due request got its place."""
        self._spare.spend(turn)

    @property
    def spares(self) -> bool:
        """Return whether any best effort waits."""
        return bool(len(self._spare))

    def last_spare(self) -> W | None:
        """Return the best effort that goes last; it is shed first."""
        return self._spare.last()

    def newly_late(self) -> Iterator[W]:
        """Yield the guaranteed requests that were set aside as late since the last call."""
        for tier in self._guaranteed:
            yield from tier.newly_late()

    def work_s(self, now: float) -> float:
        """Return the prefill of all guaranteed requests that were not found late."""
        return sum(tier.work_s(now) for tier in self._guaranteed)

    def newest(self) -> W | None:
        """Return the newest guaranteed request, of the tenant with the longest line.

        `None`: all that wait are of one tenant, or none waits.
        """
        tiers = (tier for tier in reversed(self._guaranteed) if tier.tenants > 1)
        return next((tier.newest() for tier in tiers), None)

    def shed(self, start_s: float, *, now: float) -> W | None:
        """Return the guaranteed request of the lowest priority that was found late last.

        Return `None` if no guaranteed request is late.
        """
        late = (tier.shed(start_s, now=now) for tier in reversed(self._guaranteed))
        return next((waiter for waiter in late if waiter is not None), None)
