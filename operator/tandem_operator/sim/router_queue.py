"""The one queue in front of a pool, and the choice of the pod that a request goes to.

Deadline order is the live router's own; the other orders are what it is compared with.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import chain, islice

from tandem_operator.sim.flight import Flight
from tandem_routing import deadline_queue
from tandem_routing.deadline_queue import RECONSIDERED_EVERY_S, DeadlineQueue, Expected

# One under way and one that goes on at once.
ALWAYS_AT_A_POD = 2


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
class RouterSettings:
    """How the pool's router works.

    Attributes:
        requests_per_prefill_pod: most requests outstanding at a prefill pod; `None`: no limit, all
            queues stand at the pods.
        tokens_per_prefill_pod: most prompt tokens outstanding there beyond two requests. Short
            prompts share a pass; a long one waits where it can still be put in order.
        first_token_s: how long a first token may take: who could have none in that time is shed;
            `None`: nobody is.
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

    def has_room(self, *, requests: int, tokens: int, prompt_tokens: int) -> bool:
        """Whether a prefill pod that holds so much takes one more prompt."""
        if self.requests_per_prefill_pod is None:
            return True
        return requests < self.requests_per_prefill_pod and (
            requests < ALWAYS_AT_A_POD or tokens + prompt_tokens <= self.tokens_per_prefill_pod
        )


@dataclass(frozen=True, slots=True)
class Prospect:
    """When prefill would be done with work that it is sent now.

    Attributes:
        start_s: when the first prefill pod is free.
        pods: how many share the work.
        rest_s: from the end of a request's prefill to its first token.
    """

    start_s: float
    pods: int
    rest_s: float


Entry = tuple[float, int, Flight, float]


class RouterQueue:
    """Requests that wait for a prefill pod.

    `service_s`: a request's prefill alone on a pod. `prospect`: what to expect of prefill at a
    moment. `elsewhere`: whether a decode pod may take a request whole, and at once.
    """

    def __init__(
        self,
        order: Order,
        *,
        service_s: Callable[[Flight], float],
        prospect: Callable[[float], Prospect],
        elsewhere: bool = False,
    ) -> None:
        self._order = order
        self._service_s = service_s
        self._prospect = prospect
        self._elsewhere = elsewhere
        self._urgent: list[Entry] = []
        self._line: deque[Entry] = deque()
        self._line_work_s = 0.0
        self._deadline = DeadlineOrder(elsewhere=elsewhere)
        self.prompt_tokens = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._line) + len(self._deadline)

    def __iter__(self) -> Iterator[Flight]:
        waiting = (entry[2] for entry in chain(self._urgent, self._line))
        return chain(waiting, self._deadline)

    def add(self, flight: Flight) -> None:
        """Let a request wait."""
        self.prompt_tokens += flight.request.prompt_tokens
        entry = (flight.deadline_s, flight.number, flight, self._service_s(flight))
        if self._order is Order.DEADLINE:
            self._deadline.add(flight, entry[3])
            return
        if self._order is Order.FIFO:
            self._put_in_line(entry)
        else:
            insort(self._urgent, entry)

    def wait_until(self, flight: Flight, by_s: float) -> None:
        """Let a request wait no longer than that."""
        flight.begin_by_s = by_s
        if self._order is Order.DEADLINE:
            self._deadline.wait_until(flight, by_s)

    def worn_out(self, now_s: float) -> Flight | None:
        """One that may wait no more: whoever is not set aside, or the first who is."""
        if self._order is Order.DEADLINE:
            return self._deadline.worn_out(now_s)
        candidates = (entry[2] for entry in chain(self._urgent, islice(self._line, 1)))
        return next(
            (
                each
                for each in candidates
                if each.begin_by_s is not None and each.begin_by_s < now_s
            ),
            None,
        )

    def sort(self, now_s: float) -> tuple[Flight | None, list[Flight]]:
        """Who goes next, and who could be on time, but not at the prefill pods in this order."""
        prospect = self._prospect(now_s)
        if self._order is Order.DEADLINE:
            return self._deadline.sort(now_s, prospect)
        if self._order is Order.FIFO:
            first = self._line[0][2] if self._line else None
            return first, self._late_newcomer(prospect)
        self._set_hopeless_aside(now_s, prospect)
        kept: list[Entry] = []
        excess: list[Entry] = []
        work_s = 0.0
        for entry in self._urgent:
            deadline_s, _, _, service_s = entry
            kept.append(entry)
            start_s = prospect.start_s + work_s / prospect.pods
            work_s += service_s
            if start_s + service_s + prospect.rest_s > deadline_s:
                victim = max(kept, key=lambda each: (each[3], each[0], each[1]))
                kept.remove(victim)
                work_s -= victim[3]
                excess.append(victim)
        if kept:
            return kept[0][2], [entry[2] for entry in excess]
        waiting = self._line[0][2] if self._line else None
        return waiting, [entry[2] for entry in excess]

    def take(self, flight: Flight) -> None:
        """Let a request leave."""
        self.prompt_tokens -= flight.request.prompt_tokens
        if self._order is Order.DEADLINE:
            self._deadline.take(flight)
            return
        for index, entry in enumerate(self._urgent):
            if entry[2] is flight:
                del self._urgent[index]
                return
        # The next one is the first in line, an overflow of first come first served the last.
        entry = self._line.popleft() if self._line[0][2] is flight else self._line.pop()
        if entry[2] is not flight:
            raise LookupError(f"request {flight.number} is neither first nor last in line")
        self._line_work_s -= entry[3]

    def is_hopeless(self, flight: Flight) -> bool:
        """Whether a request was set aside because it can no longer be on time."""
        if self._order is Order.DEADLINE:
            return self._deadline.is_late(flight)
        return self._order is not Order.FIFO and bool(self._line) and self._line[0][2] is flight

    def _put_in_line(self, entry: Entry) -> None:
        self._line.append(entry)
        self._line_work_s += entry[3]

    def _set_hopeless_aside(self, now_s: float, prospect: Prospect) -> None:
        """Those that would be late if they went next, at a decode pod too where one may help."""
        start_s = now_s if self._elsewhere else prospect.start_s
        still: list[Entry] = []
        for entry in self._urgent:
            if start_s + entry[3] + prospect.rest_s > entry[0]:
                self._put_in_line(entry)
            else:
                still.append(entry)
        self._urgent = still

    def _late_newcomer(self, prospect: Prospect) -> list[Flight]:
        if not self._line:
            return []
        deadline_s, _, flight, _ = self._line[-1]
        end_s = prospect.start_s + self._line_work_s / prospect.pods + prospect.rest_s
        return [flight] if end_s > deadline_s else []


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request as the shared queue sees it."""

    flight: Flight
    service_s: float
    queue: "DeadlineOrder"
    split: bool = True
    settled: bool = False

    @property
    def deadline_s(self) -> float:
        return self.flight.deadline_s

    @property
    def tokens(self) -> int:
        return self.flight.request.prompt_tokens

    def expects(self) -> Expected:
        return Expected(service_s=self.service_s, rest_s=self.queue.rest_s)


class DeadlineOrder:
    """The live router's queue, with the flights of a simulation in it."""

    def __init__(self, *, elsewhere: bool) -> None:
        self.rest_s = 0.0
        self._elsewhere = elsewhere
        self._queue: DeadlineQueue[_Waiter] = DeadlineQueue()
        self._waiters: dict[Flight, _Waiter] = {}
        self._begin_by: list[tuple[float, int, Flight]] = []
        self._late: Flight | None = None
        self._pods = 0
        self._reconsidered_s = 0.0

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._waiters)

    def add(self, flight: Flight, service_s: float) -> None:
        """Let a request wait."""
        waiter = self._waiters[flight] = _Waiter(flight, service_s, self)
        self._queue.add(waiter)

    def wait_until(self, flight: Flight, by_s: float) -> None:
        """Let a request wait no longer than that."""
        heappush(self._begin_by, (by_s, flight.number, flight))

    def worn_out(self, now_s: float) -> Flight | None:
        """One that may wait no more."""
        while self._begin_by and self._begin_by[0][0] < now_s:
            by_s, _, flight = self._begin_by[0]
            # One that begins anew stands here twice.
            if flight in self._waiters and flight.begin_by_s == by_s:
                return flight
            heappop(self._begin_by)
        return None

    def sort(self, now_s: float, prospect: Prospect) -> tuple[Flight | None, list[Flight]]:
        """Who goes next, and who would be late at the prefill pods."""
        self.rest_s = prospect.rest_s
        due_s = self._reconsidered_s + RECONSIDERED_EVERY_S
        if prospect.pods != self._pods or now_s >= due_s:
            self._pods, self._reconsidered_s = prospect.pods, now_s
            self._queue.reconsider(now_s)
        elsewhere_s = now_s if self._elsewhere else None
        found = self._queue.next(
            deadline_queue.Prospect(prospect.start_s, prospect.pods, elsewhere_s)
        )
        first = None if found.first is None else found.first.waiter.flight
        self._late = first if found.late else None
        return first, [turn.waiter.flight for turn in found.excess]

    def take(self, flight: Flight) -> None:
        """Let a request leave."""
        self._queue.remove(self._waiters.pop(flight))

    def is_late(self, flight: Flight) -> bool:
        """Whether the next one can no longer be on time."""
        return self._late is flight


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
