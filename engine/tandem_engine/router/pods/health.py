"""The results of the work of one engine pod, by which `ejection` decides.

Only results count, never the pod's own reports. A client's error, or a client that leaves, is no
result.
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
    """The pod gets one request, which decides whether it gets more."""


class Why(StrEnum):
    """The reason of an ejection."""

    REFUSED = "refused"
    SILENT = "silent"
    FAILURES = "failures"
    FAILURE_SHARE = "failure_share"
    NO_PROGRESS = "no_progress"
    SLOW = "slow"
    KV = "kv"


CERTAIN = frozenset({Why.REFUSED, Why.SILENT})
"""Nothing reaches the pod, so its ejection loses nothing, however many pods are ejected."""


class FirstToken(NamedTuple):
    """The time of a prompt to its first token; `tokens` includes the prompts before it."""

    at_s: float
    seconds: float
    tokens: int

    @property
    def began_s(self) -> float:
        """Return the time at which it was sent."""
        return self.at_s - self.seconds

    @property
    def pace(self) -> float:
        """Return the seconds per token of work."""
        return self.seconds / work(self.tokens)


@dataclass(slots=True)
class Series:
    """Results of one kind of work, and its times to first token.

    Attributes:
        failures: in a row, up to now.
        well_s: time of the last success.
    """

    failures: int = 0
    well_s: float | None = None
    _outcomes: deque[tuple[float, bool]] = field(
        default_factory=lambda: deque(maxlen=_MOST_OUTCOMES)
    )
    _firsts: deque[FirstToken] = field(default_factory=lambda: deque(maxlen=_MOST_FIRSTS))

    def well(self, now: float) -> None:
        """Record a success."""
        self.failures = 0
        self.well_s = now
        self._outcomes.append((now, True))

    def failed(self, now: float) -> None:
        """Record a failure."""
        self.failures += 1
        self._outcomes.append((now, False))

    def first(self, first: FirstToken) -> None:
        """Record a time to first token."""
        self._firsts.append(first)

    def counts(self, now: float) -> tuple[int, int]:
        """Return failures and all results within the window."""
        ended = [well for at_s, well in self._outcomes if at_s > now - WINDOW_S]
        return len(ended) - sum(ended), len(ended)

    def firsts(self, now: float) -> list[FirstToken]:
        """Return the latest times to first token."""
        return [first for first in self._firsts if first.at_s > now - WINDOW_S]

    def forget(self) -> None:
        """Start again."""
        self.failures = 0
        self._outcomes.clear()
        self._firsts.clear()


def work(tokens: int) -> int:
    """Return the work of a prompt for an engine, in tokens."""
    return _LEAST_WORK_TOKENS + tokens


class PodHealth:
    """The record of one pod.

    Attributes:
        why, since_s: reason and time of the first ejection since it last was `IN`.
        until_s: no probe before.
        times: ejections not forgiven yet.
        back_s: time of the last return, to a trial or to work.
        taken_s: time when the trial began; `None`: it waits for a request.
        trial: the attempt that is the trial.
        lost_tokens: tokens of recent failures, so that a failing pod does not look idle.
        legs: its own work. pulls: decode legs that pull KV blocks, at or from this pod.
        well_with: time of the last good pull, by the other pod.
        waiting: attempts without a first token.
        progress_s: time of its last token.
        relieved_s: when pulls without progress were last given up.
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
        """Return whether it can take a new request."""
        return self.state is State.IN or (self.state is State.TRIAL and self.taken_s is None)

    def entered(self, now: float) -> None:
        """Record a request that goes there; it is the trial if one is due."""
        if self.state is State.TRIAL and self.taken_s is None:
            self.taken_s = now

    def series(self) -> Iterator[Series]:
        """Return both kinds of work."""
        yield self.legs
        yield self.pulls

    def give_up(self) -> None:
        """End the waits for a first token that can be ended."""
        for attempt in tuple(self.waiting):
            attempt.abandon()

    def end_like(self, stalled: "Attempt", *, now: float) -> None:
        """End the attempts that wait for the same as `stalled`.

        An attempt that only waits behind pulls stays, because it has its time once they are gone.
        """
        if not stalled.pulls:
            self.give_up()
            return
        for attempt in tuple(self.waiting):
            if attempt.pulls:
                attempt.abandon()
        self.relieved_s = now

    def forget_before(self, at_s: float) -> None:
        """Forget good pulls from before that time."""
        for name in [name for name, well_s in self.well_with.items() if well_s < at_s]:
            del self.well_with[name]


class Attempt:
    """One try of one request at one pod.

    Attributes:
        ahead: tokens of the prompts that waited at the pod when it came.
        source: the prefill pod whose KV blocks it pulls.
        pulls: whether it pulls any.
        tokens_made: tokens so far.
        give_up: ends the wait for a first token; returns whether it could.
        given_up: the wait was ended.
        settled: its result for the pod is recorded.
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
        """Return whether it only waits in a queue: others at the same two pods were served."""
        health, source = self.pod.health, self.source
        if source is None or self not in health.waiting:
            return False
        return health.well_with.get(source.name, self.began_s) > self.began_s

    def first(self, now: float) -> FirstToken:
        """Return its time to first token, if that comes now."""
        return FirstToken(now, now - self.began_s, self.tokens + self.ahead)

    def abandon(self) -> None:
        """End the wait for the first token, if it can be ended."""
        self.given_up = self.given_up or self.give_up()
