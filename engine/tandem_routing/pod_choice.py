"""Which of several pods gets a request."""

from collections.abc import Iterable
from typing import Protocol, TypeVar


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


def least_loaded(pods: Iterable[P]) -> P | None:
    """Return the pod with the least outstanding work in tokens."""
    return min(pods, key=lambda pod: (pod.weight, pod.requests, pod.name), default=None)
