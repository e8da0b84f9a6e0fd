"""The worth of each pod's prefix cache: the prompt tokens that it saved lately.

Only tokens that no other pod had cached count, because the others would have been found there. A
router counts the prompts that it sent itself, so the counts of several routers add up.
"""

from collections.abc import Hashable
from math import exp
from typing import Generic, TypeVar

LATELY_S = 60.0
"""The mean age of what counts: its weight falls by a factor of e in this time."""

K = TypeVar("K", bound=Hashable)


class CacheWorth(Generic[K]):
    """The saved tokens of each pod, the older the less."""

    def __init__(self) -> None:
        self._saved: dict[K, tuple[float, float]] = {}

    def add(self, pod: K, tokens: int, *, now: float) -> None:
        """Count `tokens` that the cache of `pod` alone saves now."""
        if tokens > 0:
            self._saved[pod] = self._tokens(pod, now) + tokens, now

    def by_pod(self, now: float) -> dict[K, int]:
        """Return the worth of each pod in tokens, without pods that have none."""
        found = {pod: round(self._tokens(pod, now)) for pod in self._saved}
        return {pod: tokens for pod, tokens in found.items() if tokens}

    def forget(self, pod: K) -> None:
        """Forget a pod that is gone, or whose engine began anew."""
        self._saved.pop(pod, None)

    def forget_all(self) -> None:
        """Forget every pod."""
        self._saved.clear()

    def _tokens(self, pod: K, now: float) -> float:
        tokens, at = self._saved.get(pod, (0.0, now))
        return tokens * exp((at - now) / LATELY_S)
