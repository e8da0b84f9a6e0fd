"""The one queue in front of a pool, and the choice of the pod that a request goes to.

Deadline order is the live router's own; the other orders are what it is compared with.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Protocol

from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.other_orders import Fifo, Goodput
from tandem_operator.sim.routing.router_view import PrefillSide
from tandem_routing.deadline_queue import (
    RECONSIDERED_EVERY_S,
    DeadlineQueue,
    Expected,
    Next,
    Prospect,
)
from tandem_routing.pod_choice import Room


class Order(StrEnum):
    """Who goes next."""

    FIFO = "fifo"
    DEADLINE = "deadline"
    """The most urgent that can still be on time; those that cannot, behind them."""
    GOODPUT = "goodput"
    """As `DEADLINE`, but while not all can be on time, the longest prompts give way."""


class Spread(StrEnum):
    """Which pod a request goes to."""

    LEAST_LOADED = "least-loaded"
    ROUND_ROBIN = "round-robin"
    PREFIX_AFFINE = "prefix-affine"
    """The pod that holds most of the prompt, unless it is far busier than the idlest."""


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
        decode_gate: let requests wait here, rather than slow down every stream, while the decode
            pods hold as many as keep TPOT.
    """

    order: Order = Order.DEADLINE
    spread: Spread = Spread.LEAST_LOADED
    requests_per_prefill_pod: int | None = 64
    tokens_per_prefill_pod: int = 4096
    first_token_s: float | None = None
    overflow: bool = True
    decode_gate: bool = True

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

    def next(self, prospect: Prospect, /, *, now: float) -> Next[QueuedFlight]:
        """Who goes next, and who would be late at the prefill pods."""


class RouterQueue:
    """Requests that wait for a pod. `expected`: what to expect of one of them now."""

    def __init__(self, order: Order, *, expected: Callable[[SimulatedFlight], Expected]) -> None:
        self._expected = expected
        self._lineup: Lineup = _LINEUPS[order]()
        self._waiters: dict[SimulatedFlight, QueuedFlight] = {}
        self._begin_by: list[tuple[float, int, SimulatedFlight]] = []
        self._pods: Sequence[PrefillSide] = ()
        self._reconsidered_s = 0.0
        self.prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[SimulatedFlight]:
        return iter(self._waiters)

    def add(self, flight: SimulatedFlight) -> None:
        """Let a request wait."""
        tokens = flight.request.prompt_tokens
        waiter = QueuedFlight(flight, flight.deadline_s, tokens, self._expected)
        self._waiters[flight] = waiter
        self._lineup.add(waiter)
        self.prompt_tokens += tokens

    def take(self, flight: SimulatedFlight) -> None:
        """Let a request leave."""
        waiter = self._waiters.pop(flight)
        self._lineup.remove(waiter)
        self.prompt_tokens -= waiter.tokens

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

    def next(self, prospect: Prospect, now_s: float) -> Next[QueuedFlight]:
        """Who goes next, and who could be on time, but not at the prefill pods in this order."""
        return self._lineup.next(prospect, now=now_s)


_LINEUPS: dict[Order, Callable[[], Lineup]] = {
    Order.DEADLINE: DeadlineQueue[QueuedFlight],
    Order.FIFO: Fifo[QueuedFlight],
    Order.GOODPUT: Goodput[QueuedFlight],
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod as the choice sees it: its load in tokens, and how much of the prompt it holds."""

    index: int
    load_tokens: float
    cached_tokens: int = 0


def pick(
    candidates: Sequence[Candidate], spread: Spread, *, last: int, slack_tokens: float
) -> Candidate:
    """The pod to send to. Of equals the first; `last` is the index that went last."""
    if spread is Spread.ROUND_ROBIN:
        return min(candidates, key=lambda c: (c.index <= last, c.index))
    idlest = min(candidates, key=lambda c: (c.load_tokens, c.index))
    if spread is Spread.PREFIX_AFFINE:
        near = [c for c in candidates if c.load_tokens <= idlest.load_tokens + slack_tokens]
        return min(near, key=lambda c: (c.load_tokens - c.cached_tokens, c.index))
    return idlest
