"""The choice of a pod for a request among several pods."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tandem_routing.outstanding import Outstanding

_ALWAYS_AT_A_POD = 2

C = TypeVar("C", bound=Outstanding)


class Choosable(Protocol):
    """A pod as the choice sees it."""

    @property
    def weight(self) -> float:
        """Return its outstanding tokens, plus penalties."""

    @property
    def requests(self) -> int:
        """Return its number of requests."""

    @property
    def name(self) -> str:
        """Return its name, which decides among equals."""


P = TypeVar("P", bound=Choosable)


@dataclass(frozen=True, slots=True)
class Room:
    """The most requests and prompt tokens of them that a prefill pod gets."""

    requests: int
    tokens: int

    def at(self, pods: Iterable[C], *, prompt_tokens: int) -> list[C]:
        """Return the pods that can take one more prompt.

        Each pod can always hold one prompt in progress and the next one. Short prompts share a
        pass, so more of them cost little. A long prompt waits in the queue, where its place can
        still change.
        """
        most_tokens = self.tokens - prompt_tokens
        return [
            pod
            for pod in pods
            if pod.requests < self.requests
            and (pod.requests < _ALWAYS_AT_A_POD or pod.tokens <= most_tokens)
        ]


def least_loaded(pods: Iterable[P]) -> P | None:
    """Return the pod with the least outstanding work in tokens."""
    return min(pods, key=lambda pod: (pod.weight, pod.requests, pod.name), default=None)
