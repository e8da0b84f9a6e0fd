"""Which prefill pod is done with a prompt first: with its work, and what it has not cached of it.

Nothing is weighed against anything: a pod that has the prompt's beginning is worth a wait as long
as it is done sooner than others that compute all of it. So a beginning that many ask for comes to
be at a second pod as soon as waiting for the first costs more than to compute it again.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, Protocol, TypeVar

from tandem_routing.deadline_queue import Expected, Turn, Waiting
from tandem_routing.pod_choice import Choosable

# Each costs a look at the pods, and there may be a hundred looks a second.
_MOST_APART = 32


class Computing(Choosable, Protocol):
    """A prefill pod as this choice sees it."""

    @property
    def tokens(self) -> int:
        """Return the tokens of the prompts that it has to compute."""

    def free_s(self, now: float, /) -> float:
        """Return when it should be done with what it has."""


P = TypeVar("P", bound=Computing)
P_contra = TypeVar("P_contra", bound=Choosable, contravariant=True)
W = TypeVar("W", bound=Waiting)


class Caches(Protocol[P_contra]):
    """What pods have cached."""

    def loss(self, pod: P_contra, tokens: float, /) -> int:
        """Return when that was used last which so many tokens more displace; 0: nothing is."""


@dataclass(frozen=True, slots=True)
class ToCompute(Generic[P]):
    """What a prefill pod has to compute: so many tokens, of which `caches` may have some."""

    tokens: int
    expected: Expected
    caches: Caches[P]


def soonest(pods: Iterable[P], prompt: ToCompute[P], *, now: float) -> P | None:
    """Return the pod that is done with it first.

    Of equals, it is the one with the fewest tokens to compute, then that whose cache loses least.
    All are equal while no time is known.
    """

    def order(pod: P) -> tuple[float, float, int, int, str]:
        end_s = _end_s(pod, prompt.expected, tokens=prompt.tokens, now=now)
        uncached = prompt.tokens - prompt.expected.cached_tokens(pod.name)
        loss = prompt.caches.loss(pod, uncached)
        return end_s, pod.weight + uncached, loss, pod.requests, pod.name

    return min(pods, key=order, default=None)


@dataclass(slots=True)
class Apart(Generic[W]):
    """Requests that wait for a pod that has no room, at one look at the queue: others go before."""

    waiters: set[W] = field(default_factory=set)
    _ahead_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def takes(
        self, turn: Turn[W], pods: Iterable[Computing], room: Iterable[Computing], *, now: float
    ) -> bool:
        """Set one apart if a pod without room is done with its prompt before any that has `room`.

        Those that wait for the pod already go before it.
        """
        expected, here = turn.expected, set(room)
        near = [pod for pod in pods if pod.name in expected.near and pod not in here]
        if not near or len(self.waiters) >= _MOST_APART:
            return False

        def done_s(pod: Computing) -> float:
            end_s = _end_s(pod, expected, tokens=turn.waiter.tokens, now=now)
            return end_s + self._ahead_s[pod.name]

        best = min(near, key=lambda pod: (done_s(pod), pod.name))
        if min(map(done_s, here), default=inf) <= done_s(best):
            return False
        self._ahead_s[best.name] += expected.work_s(alone=False, at=best.name)
        self.waiters.add(turn.waiter)
        return True


def _end_s(pod: Computing, expected: Expected, *, tokens: int, now: float) -> float:
    """Return when `pod` should be done with a prompt that it is sent now.

    What it failed just now counts as work: else a pod that fails at once is always the soonest.
    """
    work_s = expected.work_s(alone=not pod.requests, at=pod.name)
    lost_s = expected.cold_s * (pod.weight - pod.tokens) / max(1, tokens)
    return pod.free_s(now) + lost_s + work_s
