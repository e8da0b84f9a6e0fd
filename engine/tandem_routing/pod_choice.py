"""Which of several pods gets a request."""

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
        """Return its outstanding tokens, and what else counts against it."""

    @property
    def requests(self) -> int:
        """Return how many requests it has."""

    @property
    def name(self) -> str:
        """Return what tells equals apart."""


P = TypeVar("P", bound=Choosable)


@dataclass(frozen=True, slots=True)
class Room:
    """The most that a prefill pod is sent, in requests and in tokens of their prompts."""

    requests: int
    tokens: int

    def at(self, pods: Iterable[C], *, prompt_tokens: int) -> list[C]:
        """Return those of `pods` that take one more prompt.

        Each always holds one under way and one that goes on at once. Short prompts share a pass, so
        more of them cost little; a long one waits where it can still be put in order.
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
