"""The queue of one tenant: requests that can meet their TTFT bound go first, by deadline."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from tandem_routing.outstanding import Load, Outstanding

LOOKED_AT = 64
"""Requests that are looked at: of hundreds, the last ones are checked once they are further on."""
# Expectations change slowly, and hundreds of requests may wait.
RECONSIDERED_EVERY_S = 1.0
# Expectations of requests on time are updated more often, but not at a hundred looks a second.
ASKED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class AtPod:
    """The expectation for a request at a pod that has a part of its prompt cached.

    Attributes:
        held_tokens: prompt tokens that the pod should have, by the prompts sent to it;
            `cached_tokens` of these are counted on.
    """

    held_tokens: int
    cached_tokens: int
    service_s: float


@dataclass(frozen=True, slots=True)
class Expected:
    """The expectation for one request, as far as known.

    Attributes:
        service_s: its prefill alone on a pod.
        pass_s: the part of `service_s` that prompts in one pass share.
        whole_s: its prefill at a decode pod; 0: not known.
        rest_s: from the end of its prefill to its first token.
        output_tokens: tokens of all its answers.
        streams: number of answers at once.
        cold_s: its prefill on a pod that is not in `near`.
        near: the pods that should have a part of its prompt cached, by name.
    """

    service_s: float = 0.0
    pass_s: float = 0.0
    whole_s: float = 0.0
    rest_s: float = 0.0
    output_tokens: int = 0
    streams: int = 1
    cold_s: float = 0.0
    near: Mapping[str, AtPod] = field(default_factory=dict)

    def work_s(self, *, alone: bool, at: str | None = None) -> float:
        """Return the work that it adds to a prefill pod; requests there share a pass.

        `at` names the pod; `None`: a pod without a special place in `near`.
        """
        service_s = self.service_s
        if at is not None and self.near:
            near = self.near.get(at)
            service_s = self.cold_s if near is None else near.service_s
        return service_s if alone else max(0.0, service_s - self.pass_s)

    def cached_tokens(self, at: str) -> int:
        """Return the tokens of its prompt that the pod `at` is expected to have cached."""
        near = self.near.get(at)
        return 0 if near is None else near.cached_tokens

    def held_tokens(self, at: str) -> int:
        """Return the tokens of its prompt that the pod should have, by the prompts sent to it."""
        near = self.near.get(at)
        return 0 if near is None else near.held_tokens

    def saved_tokens(self, at: str) -> int:
        """Return how many more tokens of its prompt the pod has cached than any other pod."""
        others = (near.cached_tokens for pod, near in self.near.items() if pod != at)
        return max(0, self.cached_tokens(at) - max(others, default=0))


class Waiting(Protocol):
    """A waiting request, as the queue sees it."""

    @property
    def deadline_s(self) -> float:
        """Return the time when its TTFT bound passes."""

    @property
    def tokens(self) -> int:
        """Return the tokens of its prompt, as far as known."""

    @property
    def split(self) -> bool:
        """Return whether it can use a prefill pod at all."""

    @property
    def settled(self) -> bool:
        """Return whether it no longer waits, although it is still in the queue."""

    def expects(self) -> Expected:
        """Return the present expectation; it becomes more exact with time."""


W = TypeVar("W", bound=Waiting)


@dataclass(frozen=True, slots=True)
class Prospect:
    """The time when prefill pods would begin with new work.

    Attributes:
        start_s: when the first of them is free.
        pods: number of pods that share the work.
        elsewhere_s: since when decode pods can help; `None`: they do not.
    """

    start_s: float
    pods: int
    elsewhere_s: float | None = None

    @classmethod
    def of(cls, prefill: Sequence[Outstanding], *, now: float, helped: bool) -> "Prospect":
        """Return the prospect of these pods; `helped`: decode pods can help at once."""
        return cls(
            start_s=min((pod.free_s(now) for pod in prefill), default=now),
            pods=max(1, len(prefill)),
            elsewhere_s=now if helped else None,
        )


@dataclass(frozen=True, slots=True)
class Turn(Generic[W]):
    """A waiting request with its present expectation."""

    waiter: W
    expected: Expected

    @property
    def to_first_s(self) -> float:
        """Return the seconds from the begin of its prefill to its first token.

        A decode pod does the prefill of a request that cannot use a prefill pod.
        """
        expected = self.expected
        compute_s = expected.service_s if self.waiter.split else expected.whole_s
        return compute_s + expected.rest_s

    @property
    def decode_load(self) -> Load:
        """Return the load that it adds to a decode pod."""
        expected = self.expected
        return Load(
            tokens=self.waiter.tokens + expected.output_tokens,
            streams=expected.streams,
            output_tokens=expected.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Next(Generic[W]):
    """The next request for a prefill pod, and the requests that will be late there.

    Attributes:
        late: whether the first is late already.
        excess: requests that could be on time, but not at the prefill pods in this order.
    """

    first: Turn[W] | None
    late: bool
    excess: tuple[Turn[W], ...] = ()


NOBODY: Next[Any] = Next(None, late=True)


class Unfit(Exception):  # noqa: N818 - carries its cause to the one it is about
    """An expectation failed; `waiter` is the request."""

    def __init__(self, waiter: Waiting) -> None:
        super().__init__()
        self.waiter = waiter


def turn_of(waiter: W) -> Turn[W]:
    """Return `waiter` with its present expectation; raises `Unfit`."""
    try:
        return Turn(waiter, waiter.expects())
    except Exception as error:
        raise Unfit(waiter) from error


class _Place(Generic[W]):
    """A request in the queue, and its last expectation."""

    __slots__ = ("ask_again_s", "service_s", "to_first_s", "turn", "waiter")

    def __init__(self, waiter: W) -> None:
        self.waiter = waiter
        self.turn: Turn[W] | None = None
        self.service_s = self.to_first_s = 0.0
        self.ask_again_s = -inf

    def ask(self, now: float) -> Turn[W]:
        """Return the expectation, updated if it is old; raises `Unfit`."""
        turn = self.turn
        if turn is None or now >= self.ask_again_s:
            turn = self.turn = turn_of(self.waiter)
            self.service_s, self.to_first_s = turn.expected.service_s, turn.to_first_s
            self.ask_again_s = now + ASKED_EVERY_S
        return turn


class DeadlineQueue(Generic[W]):
    """Requests that wait for one kind of pod; settled ones are skipped until they are removed."""

    def __init__(self) -> None:
        self._urgent: list[tuple[float, int, _Place[W]]] = []
        self._hopeless: OrderedDict[W, None] = OrderedDict()
        # Those of them that nobody has been told of.
        self._fresh: OrderedDict[W, None] = OrderedDict()
        self._entries: dict[W, tuple[float, int, _Place[W]]] = {}
        self._entered = 0

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._entries)

    def add(self, waiter: W) -> None:
        """Add a request."""
        self._entered += 1
        entry = self._entries[waiter] = (waiter.deadline_s, self._entered, _Place(waiter))
        insort(self._urgent, entry)

    def remove(self, waiter: W) -> None:
        """Remove a request, wherever it is; do nothing if it is not in the queue."""
        entry = self._entries.pop(waiter, None)
        if entry is None:
            return
        if waiter in self._hopeless:
            del self._hopeless[waiter]
            self._fresh.pop(waiter, None)
        else:
            del self._urgent[bisect_left(self._urgent, entry)]

    def reconsider(self, now: float) -> None:
        """Check late requests again if their bound has not passed yet."""
        for waiter in [waiter for waiter in self._hopeless if waiter.deadline_s > now]:
            del self._hopeless[waiter]
            self._fresh.pop(waiter, None)
            insort(self._urgent, self._entries[waiter])

    def next(self, prospect: Prospect, *, now: float, apart_from: Collection[W] = ()) -> Next[W]:
        """Return the next request: the most urgent one on time, else the first late one.

        Requests of `apart_from` wait for one certain pod, and are left out.
        """
        if not self._entries:
            return NOBODY
        elsewhere_s = prospect.elsewhere_s
        excess: tuple[Turn[W], ...] = ()
        start_s = prospect.start_s if elsewhere_s is None else elsewhere_s
        first = self.set_late_aside(start_s, now, apart_from)
        if elsewhere_s is not None:
            first, excess = self._sorted(prospect, now, apart_from)
        if first is not None:
            return Next(first, late=False, excess=excess)
        return Next(self.first_late(now, apart_from), late=True, excess=excess)

    def urgent(self, now: float) -> Iterator[Turn[W]]:
        """Yield the most urgent requests, in order, without those that were found late."""
        for *_, place in islice(self._urgent, LOOKED_AT):
            if not place.waiter.settled:
                yield place.ask(now)

    def urgent_span(self) -> tuple[int, float]:
        """Return the number of requests that were not found late, and the last of their bounds."""
        return len(self._urgent), self._urgent[-1][0] if self._urgent else -inf

    def first_late(self, now: float, apart_from: Collection[W] = ()) -> Turn[W] | None:
        """Return the request that was found late first."""
        late = (each for each in self._hopeless if not each.settled and each not in apart_from)
        waiter = next(late, None)
        return None if waiter is None else self._entries[waiter][2].ask(now)

    def newly_late(self) -> Iterator[W]:
        """Yield the requests that were set aside as late since the last call."""
        while self._fresh:
            yield self._fresh.popitem(last=False)[0]

    def newest(self) -> W | None:
        """Return the request that came last."""
        return next((each for each in reversed(self._entries) if not each.settled), None)

    def shed(self, start_s: float, *, now: float) -> W | None:
        """Return the request that was found late last; `None` if no request is late."""
        self.set_late_aside(start_s, now)
        late = (waiter for waiter in reversed(self._hopeless) if not waiter.settled)
        return next(late, None)

    def set_late_aside(
        self, start_s: float, now: float, apart_from: Collection[W] = ()
    ) -> Turn[W] | None:
        """Move late requests away from the front, and return the first that can be on time."""
        passed = 0
        while passed < len(self._urgent):
            deadline_s, _, place = self._urgent[passed]
            waiter = place.waiter
            if waiter.settled:
                self.remove(waiter)
                continue
            if waiter in apart_from:
                passed += 1
                continue
            turn = place.ask(now)
            if start_s + place.to_first_s <= deadline_s:
                return turn
            del self._urgent[passed]
            self._hopeless[waiter] = self._fresh[waiter] = None
        return None

    def _sorted(
        self, prospect: Prospect, now: float, apart_from: Collection[W]
    ) -> tuple[Turn[W] | None, tuple[Turn[W], ...]]:
        """Return the first urgent request that will be on time, and those that will be late."""
        first: Turn[W] | None = None
        excess: list[Turn[W]] = []
        start_s, pods = prospect.start_s, prospect.pods
        for deadline_s, _, place in self._urgent[:LOOKED_AT]:
            if place.waiter.settled:
                continue
            turn = place.ask(now)
            if place.waiter in apart_from:
                start_s += place.service_s / pods
                continue
            if start_s + place.to_first_s > deadline_s:
                excess.append(turn)
                continue
            first = first or turn
            start_s += place.service_s / pods
        return first, tuple(excess)
