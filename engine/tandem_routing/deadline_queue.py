"""Who goes next: those who can still meet their TTFT, the most urgent foremost, then others."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from tandem_routing.outstanding import Load, Outstanding

# With hundreds in line, whether the last of them will be on time shows when they are further ahead.
_LOOKED_AT = 64
# What is expected of requests moves slowly, and each of hundreds is asked.
RECONSIDERED_EVERY_S = 1.0
# Of who is on time more often: still, no request is asked at each of a hundred looks a second.
ASKED_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of one request, as far as known.

    Attributes:
        service_s: its prefill alone on a pod.
        pass_s: the part of that which prompts in one pass share.
        whole_s: its prefill at a decode pod; 0: not known.
        rest_s: from the end of its prefill to its first token.
        output_tokens: what it will make, in all its answers.
        streams: answers that it makes at once.
    """

    service_s: float = 0.0
    pass_s: float = 0.0
    whole_s: float = 0.0
    rest_s: float = 0.0
    output_tokens: int = 0
    streams: int = 1

    def work_s(self, *, alone: bool) -> float:
        """Return what it adds to the work of a prefill pod: a pass is shared with others there."""
        return self.service_s if alone else max(0.0, self.service_s - self.pass_s)


class Waiting(Protocol):
    """One request that waits, as the queue sees it."""

    @property
    def deadline_s(self) -> float:
        """Return when its TTFT bound passes."""

    @property
    def tokens(self) -> int:
        """Return the tokens of its prompt, as far as known."""

    @property
    def split(self) -> bool:
        """Return whether it may use a prefill pod at all."""

    @property
    def settled(self) -> bool:
        """Return whether it waits no more, although nobody has taken it out of the queue yet."""

    def expects(self) -> Expected:
        """Return what is expected of it now: more is known each time."""


W = TypeVar("W", bound=Waiting)


@dataclass(frozen=True, slots=True)
class Prospect:
    """When prefill pods would begin with work that they are sent now.

    Attributes:
        start_s: when the first of them is free.
        pods: how many share the work.
        elsewhere_s: since when others might help; `None`: nobody will.
    """

    start_s: float
    pods: int
    elsewhere_s: float | None = None

    @classmethod
    def of(cls, prefill: Sequence[Outstanding], *, now: float, helped: bool) -> "Prospect":
        """Return it for these pods; `helped`: decode pods may help at once."""
        return cls(
            start_s=min((pod.free_s(now) for pod in prefill), default=now),
            pods=max(1, len(prefill)),
            elsewhere_s=now if helped else None,
        )


@dataclass(frozen=True, slots=True)
class Turn(Generic[W]):
    """One of those who wait, and what is expected of it now."""

    waiter: W
    expected: Expected

    @property
    def to_first_s(self) -> float:
        """Return the seconds to its first token, once whoever computes its prompt begins with it.

        That is a decode pod for who may not use a prefill pod.
        """
        expected = self.expected
        compute_s = expected.service_s if self.waiter.split else expected.whole_s
        return compute_s + expected.rest_s

    @property
    def decode_load(self) -> Load:
        """Return what it will be to a decode pod."""
        expected = self.expected
        return Load(
            tokens=self.waiter.tokens + expected.output_tokens,
            streams=expected.streams,
            output_tokens=expected.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Next(Generic[W]):
    """Who goes to a prefill pod next, and who will be late there.

    Attributes:
        late: whether the first is late already.
        excess: who could be on time, but not at the prefill pods in this order.
    """

    first: Turn[W] | None
    late: bool
    excess: tuple[Turn[W], ...] = ()


_NOBODY: Next[Any] = Next(None, late=True)


class Unfit(Exception):  # noqa: N818 - carries its cause to the one it is about
    """Nothing can be said of one of those who wait; `waiter` says of whom."""

    def __init__(self, waiter: Waiting) -> None:
        super().__init__()
        self.waiter = waiter


def turn_of(waiter: W) -> Turn[W]:
    """Ask what is expected of `waiter` now; raises `Unfit`."""
    try:
        return Turn(waiter, waiter.expects())
    except Exception as error:
        raise Unfit(waiter) from error


class _Place(Generic[W]):
    """One place in the queue, and what was expected of who has it when that was asked last."""

    __slots__ = ("ask_again_s", "service_s", "to_first_s", "turn", "waiter")

    def __init__(self, waiter: W) -> None:
        self.waiter = waiter
        self.turn: Turn[W] | None = None
        self.service_s = self.to_first_s = 0.0
        self.ask_again_s = -inf

    def ask(self, now: float) -> Turn[W]:
        """Return what is expected, asked anew where that was long ago; raises `Unfit`."""
        turn = self.turn
        if turn is None or now >= self.ask_again_s:
            turn = self.turn = turn_of(self.waiter)
            self.service_s, self.to_first_s = turn.expected.service_s, turn.to_first_s
            self.ask_again_s = now + ASKED_EVERY_S
        return turn


class DeadlineQueue(Generic[W]):
    """Those who wait for one kind of pod; who gave up a moment ago is passed over until removed."""

    def __init__(self) -> None:
        self._urgent: list[tuple[float, int, _Place[W]]] = []
        self._hopeless: OrderedDict[W, None] = OrderedDict()
        self._entries: dict[W, tuple[float, int, _Place[W]]] = {}
        self._entered = 0

    def __len__(self) -> int:
        """Return how many are in it."""
        return len(self._entries)

    def add(self, waiter: W) -> None:
        """Let one more wait."""
        self._entered += 1
        entry = self._entries[waiter] = (waiter.deadline_s, self._entered, _Place(waiter))
        insort(self._urgent, entry)

    def remove(self, waiter: W) -> None:
        """Let one leave, wherever it stands; none where it is in line no more."""
        entry = self._entries.pop(waiter, None)
        if entry is None:
            return
        if waiter in self._hopeless:
            del self._hopeless[waiter]
        else:
            del self._urgent[bisect_left(self._urgent, entry)]

    def reconsider(self, now: float) -> None:
        """Let those who were found to be late and whose bound has not passed be asked once more."""
        for waiter in [waiter for waiter in self._hopeless if waiter.deadline_s > now]:
            del self._hopeless[waiter]
            insort(self._urgent, self._entries[waiter])

    def next(self, prospect: Prospect, *, now: float) -> Next[W]:
        """Say who goes next: the most urgent who will be on time, else the first who cannot."""
        if not self._entries:
            return _NOBODY
        elsewhere_s = prospect.elsewhere_s
        excess: tuple[Turn[W], ...] = ()
        start_s = prospect.start_s if elsewhere_s is None else elsewhere_s
        first = self._set_hopeless_aside(start_s, now)
        if elsewhere_s is not None:
            first, excess = self._sorted(prospect, now)
        if first is not None:
            return Next(first, late=False, excess=excess)
        waiter = next((waiter for waiter in self._hopeless if not waiter.settled), None)
        turn = None if waiter is None else self._entries[waiter][2].ask(now)
        return Next(turn, late=True, excess=excess)

    def shed(self, start_s: float, *, now: float) -> W | None:
        """Return the one that was found to be late last; `None`: nobody is."""
        self._set_hopeless_aside(start_s, now)
        late = (waiter for waiter in reversed(self._hopeless) if not waiter.settled)
        return next(late, None)

    def _set_hopeless_aside(self, start_s: float, now: float) -> Turn[W] | None:
        """Leave at the front of the urgent, and return, who can still meet its TTFT."""
        while self._urgent:
            deadline_s, _, place = self._urgent[0]
            waiter = place.waiter
            if waiter.settled:
                self.remove(waiter)
                continue
            turn = place.ask(now)
            if start_s + place.to_first_s <= deadline_s:
                return turn
            del self._urgent[0]
            self._hopeless[waiter] = None
        return None

    def _sorted(self, prospect: Prospect, now: float) -> tuple[Turn[W] | None, tuple[Turn[W], ...]]:
        """Return the first of the urgent that will be on time, and those who will not be."""
        first: Turn[W] | None = None
        excess: list[Turn[W]] = []
        start_s, pods = prospect.start_s, prospect.pods
        for deadline_s, _, place in self._urgent[:_LOOKED_AT]:
            if place.waiter.settled:
                continue
            turn = place.ask(now)
            if start_s + place.to_first_s > deadline_s:
                excess.append(turn)
                continue
            first = first or turn
            start_s += place.service_s / pods
        return first, tuple(excess)
