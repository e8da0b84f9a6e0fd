"""The one queue in front of a pool, and the choice of the pod that a request goes to."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import chain

from tandem_operator.sim.flight import Flight


class Order(StrEnum):
    """Who goes next."""

    FIFO = "fifo"
    DEADLINE = "deadline"
    """The most urgent that can still be on time; those that cannot, behind them."""


class Spread(StrEnum):
    """Which pod a request goes to."""

    LEAST_LOADED = "least-loaded"
    ROUND_ROBIN = "round-robin"
    PREFIX_AFFINE = "prefix-affine"
    """The pod that holds most of the prompt, unless it is far busier than the idlest."""


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """How the pool's router works.

    Attributes:
        requests_per_prefill_pod: most requests outstanding at a prefill pod; `None`: no limit, all
            queues stand at the pods.
        overflow: send whole requests to decode pods when prefill would be late and decode has room.
    """

    order: Order = Order.DEADLINE
    spread: Spread = Spread.LEAST_LOADED
    requests_per_prefill_pod: int | None = 4
    overflow: bool = False


class RouterQueue:
    """Requests that wait for a prefill pod. `expected_s`: from dispatch to first token, at best."""

    def __init__(self, order: Order, *, expected_s: Callable[[Flight], float]) -> None:
        self._order = order
        self._expected_s = expected_s
        self._urgent: list[tuple[float, int, Flight]] = []
        self._hopeless: deque[Flight] = deque()
        self.prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._hopeless)

    def __iter__(self) -> Iterator[Flight]:
        return chain((entry[2] for entry in self._urgent), self._hopeless)

    def add(self, flight: Flight) -> None:
        """Let a request wait."""
        first = flight.deadline_s if self._order is Order.DEADLINE else flight.request.at_s
        heappush(self._urgent, (first, flight.number, flight))
        self.prompt_tokens += flight.request.prompt_tokens

    def first(self, now_s: float) -> Flight | None:
        """The request that goes next; it stays."""
        if self._order is Order.DEADLINE:
            while self._urgent and self._is_hopeless(self._urgent[0][2], now_s):
                self._hopeless.append(heappop(self._urgent)[2])
        if self._urgent:
            return self._urgent[0][2]
        return self._hopeless[0] if self._hopeless else None

    def take(self, flight: Flight) -> None:
        """Let `flight` leave, which `first` named last."""
        if self._urgent and self._urgent[0][2] is flight:
            heappop(self._urgent)
        else:
            self._hopeless.remove(flight)
        self.prompt_tokens -= flight.request.prompt_tokens

    def _is_hopeless(self, flight: Flight, now_s: float) -> bool:
        return now_s + self._expected_s(flight) > flight.deadline_s


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
