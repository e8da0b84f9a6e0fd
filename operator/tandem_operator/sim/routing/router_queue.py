"""The one queue in front of a pool, and the choice of the pod that a request goes to.

Deadline order is the live router's own; the other orders are what it is compared with.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Protocol

from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.other_orders import Fifo, Goodput
from tandem_operator.sim.routing.pod_sides import PrefillSide
from tandem_operator.sim.routing.tenant_rules import TenantRules
from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import (
    RECONSIDERED_EVERY_S,
    Expected,
    Next,
    Prospect,
    Turn,
)
from tandem_routing.pod_choice import Room
from tandem_routing.rank import FIRST, Rank, RankedShares
from tandem_routing.tenant_shares import NO_TENANT, Tenant


class Order(StrEnum):
    """A rule of which request goes next."""

    FIFO = "fifo"
    DEADLINE = "deadline"
    """The most urgent that can still be on time; those that cannot, behind them."""
    GOODPUT = "goodput"
    """As `DEADLINE`, but while not all can be on time, the longest prompts give way."""


class Spread(StrEnum):
    """Which prefill pod a request goes to."""

    PREFIX = "prefix"
    """As live: the one that is done with its prompt first, by what each was sent before."""
    CACHES = "caches"
    """As `PREFIX`, but told what caches really hold."""
    LEAST_LOADED = "least-loaded"
    ROUND_ROBIN = "round-robin"
    RANDOM = "random"
    HASHED = "hashed"
    """Rendezvous hashing of the first blocks, among the pods with room."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How the pool's router works.

    Attributes:
        requests_per_prefill_pod: most requests outstanding at a prefill pod; `None`: no limit, all
            queues stand at the pods.
        tokens_per_prefill_pod: most prompt tokens outstanding there beyond two requests. Short
            prompts share a pass; a long one waits where it can still be put in order.
        first_token_s: how long a first token may take: a request that could have none in that time
            is shed; `None`: none is.
        overflow: send whole requests to decode pods when prefill would be late and decode has room.
        memories: how many routers there are that remember apart what they sent where; all know
            the load of pods.
        told_after_s: how long it takes until they know of each other's; `None`: for ever.
        tenants: shares and limits of tenants; `None`: all requests are of one.
        decode_gate: let requests wait here, rather than slow down every stream, while the decode
            pods hold as many as keep TPOT.
    """

    order: Order = Order.DEADLINE
    spread: Spread = Spread.PREFIX
    requests_per_prefill_pod: int | None = 64
    tokens_per_prefill_pod: int = 4096
    first_token_s: float | None = None
    overflow: bool = True
    decode_gate: bool = True
    memories: int = 1
    told_after_s: float | None = None
    tenants: TenantRules | None = None

    def tenant_of(self, flight: SimulatedFlight) -> Tenant:
        """Return the tenant in whose share of the service a request counts."""
        return NO_TENANT if self.tenants is None else self.tenants.of(flight.request).tenant

    def room(self) -> Room | None:
        """The most that a prefill pod is sent; `None`: all there is."""
        if self.requests_per_prefill_pod is None:
            return None
        return Room(requests=self.requests_per_prefill_pod, tokens=self.tokens_per_prefill_pod)


@dataclass(slots=True, eq=False)
class QueuedFlight:
    """A request as the routing policy sees it."""

    flight: SimulatedFlight
    deadline_s: float
    tokens: int
    expected: Callable[[SimulatedFlight], Expected]
    split: bool = True
    settled: bool = False
    rank: Rank = FIRST
    entered_s: float = 0.0
    tenant: Tenant = NO_TENANT
    slo_class: str | None = None
    refuse_late: bool = False

    def expects(self) -> Expected:
        """What is expected of it now."""
        return self.expected(self.flight)


class Lineup(Protocol):
    """Requests in the order in which they go."""

    def add(self, waiter: QueuedFlight, /) -> None:
        """Let one more wait."""

    def remove(self, waiter: QueuedFlight, /) -> None:
        """Let one leave."""

    def reconsider(self, now: float, /) -> None:
        """Ask those again that were found to be late."""

    def next(
        self, prospect: Prospect, /, *, now: float, apart_from: Collection[QueuedFlight] = ()
    ) -> Next[QueuedFlight]:
        """Return what goes next, and what would be late at the prefill pods."""


class RouterQueue:
    """Requests that wait for a pod.

    `expected`: what to expect of one of them now. `tenant_of`: in whose share it counts.
    """

    def __init__(
        self,
        order: Order,
        *,
        expected: Callable[[SimulatedFlight], Expected],
        tenant_of: Callable[[SimulatedFlight], Tenant] = lambda _: NO_TENANT,
    ) -> None:
        self._expected = expected
        self._tenant_of = tenant_of
        self._shares = RankedShares()
        self._lineup: Lineup = (
            ClassQueue(self._shares) if order is Order.DEADLINE else _OTHERS[order]()
        )
        self.classes = self._lineup if isinstance(self._lineup, ClassQueue) else None
        self._waiters: dict[SimulatedFlight, QueuedFlight] = {}
        self._begin_by: list[tuple[float, int, SimulatedFlight]] = []
        self._pods: Sequence[PrefillSide] = ()
        self._reconsidered_s = 0.0
        self.guaranteed_prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[SimulatedFlight]:
        return iter(self._waiters)

    def add(self, flight: SimulatedFlight) -> QueuedFlight:
        """Let a request wait."""
        tokens = flight.request.prompt_tokens
        waiter = QueuedFlight(
            flight,
            flight.deadline_s,
            tokens,
            self._expected,
            rank=_rank(flight),
            entered_s=flight.request.at_s,
            tenant=self._tenant_of(flight),
        )
        if (of := flight.slo_class) is not None:
            waiter.slo_class = of.name
            waiter.refuse_late = of.refuse_late and of.guaranteed
        self._waiters[flight] = waiter
        self._lineup.add(waiter)
        self.guaranteed_prompt_tokens += tokens if flight.guaranteed else 0
        return waiter

    def take(self, flight: SimulatedFlight) -> None:
        """Let a request leave."""
        waiter = self._waiters.pop(flight)
        self._lineup.remove(waiter)
        waiter.settled = True
        self.guaranteed_prompt_tokens -= waiter.tokens if flight.guaranteed else 0

    def serve(self, turn: Turn[QueuedFlight]) -> None:
        """Count a request in the share of its tenant, and let it leave for its place."""
        flight = turn.waiter.flight
        if self.classes is not None:
            flight.counted_tokens = self.classes.serve(turn)
        self.take(flight)

    def settle(self, flight: SimulatedFlight) -> None:
        """Count one that has ended by what it used, no more by what was expected of it."""
        if flight.counted_tokens:
            self._shares.settle(
                _rank(flight),
                self._tenant_of(flight),
                counted=flight.counted_tokens,
                used=flight.request.prompt_tokens + flight.made,
            )
            flight.counted_tokens = 0

    def woken(self, now_s: float) -> None:
        """Have requests that waited for a wake be due as if they had come when it was over."""
        for flight in [flight for flight in self._waiters if flight.given_s]:
            waiter = self._waiters[flight]
            self._lineup.remove(waiter)
            flight.deadline_s += now_s - flight.request.at_s - flight.given_s
            flight.given_s = 0.0
            waiter.deadline_s, waiter.entered_s = flight.deadline_s, now_s
            self._lineup.add(waiter)

    def wait_until(self, flight: SimulatedFlight, by_s: float) -> None:
        """Let a request wait no longer than that."""
        flight.begin_by_s = by_s
        heappush(self._begin_by, (by_s, flight.number, flight))

    def worn_out(self, now_s: float) -> SimulatedFlight | None:
        """One that may wait no more."""
        while self._begin_by and self._begin_by[0][0] < now_s:
            by_s, _, flight = self._begin_by[0]
            # One that begins anew stands here twice.
            if flight in self._waiters and flight.begin_by_s == by_s:
                return flight
            heappop(self._begin_by)
        return None

    def reconsider(self, pods: Sequence[PrefillSide], now_s: float) -> None:
        """Ask those found to be late again: other pods are there, or more is known by now."""
        if pods != self._pods or now_s >= self._reconsidered_s + RECONSIDERED_EVERY_S:
            self._pods, self._reconsidered_s = pods, now_s
            self._lineup.reconsider(now_s)

    def next(
        self, prospect: Prospect, now_s: float, *, apart_from: Collection[QueuedFlight] = ()
    ) -> Next[QueuedFlight]:
        """Return what goes next, and what only decode pods could still serve on time."""
        return self._lineup.next(prospect, now=now_s, apart_from=apart_from)


def _rank(flight: SimulatedFlight) -> Rank:
    of = flight.slo_class
    return FIRST if of is None else Rank.of(guaranteed=of.guaranteed, priority=of.priority)


_OTHERS: dict[Order, Callable[[], Lineup]] = {
    Order.FIFO: Fifo[QueuedFlight],
    Order.GOODPUT: Goodput[QueuedFlight],
}
