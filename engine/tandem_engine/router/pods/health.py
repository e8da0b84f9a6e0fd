"""What became of the work that one engine pod had: the record that `ejection` goes by.

Outcomes count, never what a pod says of itself. What a client did wrong, or left, is no outcome.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tandem_engine.router.pods.pod import Pod

WINDOW_S = 30.0
_MOST_OUTCOMES = 256
_MOST_FIRSTS = 8
# Short prompts take their time as well.
_LEAST_WORK_TOKENS = 256


class State(StrEnum):
    """Whether a pod gets new work."""

    IN = "in"
    OUT = "out"
    TRIAL = "trial"
    """One request, which says whether it gets more."""


class Why(StrEnum):
    """Why a pod is out."""

    REFUSED = "refused"
    SILENT = "silent"
    FAILURES = "failures"
    FAILURE_SHARE = "failure_share"
    NO_PROGRESS = "no_progress"
    SLOW = "slow"
    KV = "kv"


CERTAIN = frozenset({Why.REFUSED, Why.SILENT})
"""Nothing reached the pod, so nothing is lost by leaving it out, whatever others do."""


class FirstToken(NamedTuple):
    """How long a prompt took to its first token; `tokens` with those that were before it."""

    at_s: float
    seconds: float
    tokens: int

    @property
    def began_s(self) -> float:
        """Return when it was sent."""
        return self.at_s - self.seconds

    @property
    def pace(self) -> float:
        """Return the seconds per token of work."""
        return self.seconds / work(self.tokens)


@dataclass(slots=True)
class Series:
    """Outcomes of one kind of work, and how long it took to its first token.

    Attributes:
        failures: in a row, up to now.
        well_s: when work of this kind last went well.
    """

    failures: int = 0
    well_s: float | None = None
    _outcomes: deque[tuple[float, bool]] = field(
        default_factory=lambda: deque(maxlen=_MOST_OUTCOMES)
    )
    _firsts: deque[FirstToken] = field(default_factory=lambda: deque(maxlen=_MOST_FIRSTS))

    def well(self, now: float) -> None:
        """Take work that went well."""
        self.failures = 0
        self.well_s = now
        self._outcomes.append((now, True))

    def failed(self, now: float) -> None:
        """Take work that failed."""
        self.failures += 1
        self._outcomes.append((now, False))

    def first(self, first: FirstToken) -> None:
        """Take the time to a first token."""
        self._firsts.append(first)

    def counts(self, now: float) -> tuple[int, int]:
        """Return what failed within the window, and all that ended there."""
        ended = [well for at_s, well in self._outcomes if at_s > now - WINDOW_S]
        return len(ended) - sum(ended), len(ended)

    def firsts(self, now: float) -> list[FirstToken]:
        """Return the latest times to first token."""
        return [first for first in self._firsts if first.at_s > now - WINDOW_S]

    def forget(self) -> None:
        """Begin anew."""
        self.failures = 0
        self._outcomes.clear()
        self._firsts.clear()


def work(tokens: int) -> int:
    """Return what a prompt is to an engine, in tokens."""
    return _LEAST_WORK_TOKENS + tokens


class PodHealth:
    """The record of one pod.

    Attributes:
        why, since_s: of the state; since it first left `IN`.
        until_s: no probe before.
        times: ejections not forgiven yet.
        back_s: when it last came to be on trial, or in.
        taken_s: when the trial was taken; `None`: it waits for a request.
        trial: the attempt that is the trial.
        lost_tokens: of work that failed lately: a pod that is idle for that is not idle.
        legs: its own work. pulls: decode legs that pull KV blocks, at or from this pod.
        well_with: when a pull last went well, by the other pod.
        waiting: attempts without a first token.
        progress_s: when it last made a token.
        relieved_s: when pulls that stood still were last given up.
    """

    __slots__ = (
        "back_s",
        "legs",
        "lost_tokens",
        "progress_s",
        "pulls",
        "relieved_s",
        "since_s",
        "state",
        "taken_s",
        "times",
        "trial",
        "until_s",
        "waiting",
        "well_with",
        "why",
    )

    def __init__(self) -> None:
        self.state = State.IN
        self.why: Why | None = None
        self.since_s = 0.0
        self.until_s = 0.0
        self.back_s = 0.0
        self.times = 0
        self.taken_s: float | None = None
        self.trial: Attempt | None = None
        self.lost_tokens = 0
        self.legs = Series()
        self.pulls = Series()
        self.well_with: dict[str, float] = {}
        self.waiting: dict[Attempt, None] = {}
        self.progress_s = 0.0
        self.relieved_s = 0.0

    @property
    def admits(self) -> bool:
        """Return whether a new request may go there."""
        return self.state is State.IN or (self.state is State.TRIAL and self.taken_s is None)

    def entered(self, now: float) -> None:
        """Take note of a request that goes there: it is the trial, where one is due."""
        if self.state is State.TRIAL and self.taken_s is None:
            self.taken_s = now

    def series(self) -> Iterator[Series]:
        """Return both kinds of work."""
        yield self.legs
        yield self.pulls

    def give_up(self) -> None:
        """End what waits for its first token, as far as it lets itself be ended."""
        for attempt in tuple(self.waiting):
            attempt.abandon()

    def end_like(self, stalled: "Attempt", *, now: float) -> None:
        """End what waits for the same as `stalled`.

        What pulls no KV blocks itself, and waits behind pulls, has its time once they are gone.
        """
        if not stalled.pulls:
            self.give_up()
            return
        for attempt in tuple(self.waiting):
            if attempt.pulls:
                attempt.abandon()
        self.relieved_s = now

    def forget_before(self, at_s: float) -> None:
        """Forget pulls that went well before then."""
        for name in [name for name, well_s in self.well_with.items() if well_s < at_s]:
            del self.well_with[name]


class Attempt:
    """One try of one request at one pod.

    Attributes:
        ahead: tokens of the prompts that waited at the pod when it came.
        source: the prefill pod whose KV blocks it pulls.
        pulls: whether it pulls any.
        tokens_made: how many tokens it has so far.
        give_up: ends the wait for a first token; returns whether it could.
        given_up: that was done.
        settled: what it says of the pod is known.
    """

    __slots__ = (
        "ahead",
        "began_s",
        "give_up",
        "given_up",
        "pod",
        "pulls",
        "settled",
        "source",
        "tokens",
        "tokens_made",
    )

    def __init__(
        self,
        pod: "Pod",
        *,
        tokens: int,
        now: float,
        pulls: bool = False,
        source: "Pod | None" = None,
    ) -> None:
        self.pod = pod
        self.tokens = tokens
        self.ahead = sum(other.tokens for other in pod.health.waiting)
        self.began_s = now
        self.pulls = pulls
        self.source = source
        self.tokens_made: Callable[[], int] = int
        self.give_up: Callable[[], bool] = bool
        self.given_up = False
        self.settled = False

    @property
    def queued(self) -> bool:
        """Return whether it waits where others, of the same two pods, were served meanwhile."""
        health, source = self.pod.health, self.source
        if source is None or self not in health.waiting:
            return False
        return health.well_with.get(source.name, self.began_s) > self.began_s

    def first(self, now: float) -> FirstToken:
        """Return how long it took to its first token, if that comes now."""
        return FirstToken(now, now - self.began_s, self.tokens + self.ahead)

    def abandon(self) -> None:
        """End the wait for the first token, where it lets itself be ended."""
        self.given_up = self.given_up or self.give_up()
