"""Prompts that a decode pod computes by itself, and how long its streams stand still for them."""

from collections import deque

_MOST_SHARE = 0.9


class Stalls:
    """What one decode pod was sent whole; times are seconds of one clock.

    Attributes:
        computing: prompts whose first token has not come.
    """

    __slots__ = ("_begun", "computing")

    def __init__(self) -> None:
        self.computing = 0
        self._begun: deque[tuple[float, float]] = deque()

    def begin(self, seconds: float, now: float) -> None:
        """Take note of a prompt that takes so long."""
        self.computing += 1
        self._begun.append((now, seconds))

    def end(self) -> None:
        """Take note that a prompt is computed, or never will be."""
        self.computing -= 1

    def share(self, now: float, *, life_s: float, more_s: float = 0.0, routers: int = 1) -> float:
        """Return the share of a stream's life that goes to stalls, `more_s` included.

        A stream that stands still for a share `s` of its life makes its tokens in the rest: its
        TPOT is that of its steps over 1 - s. Of other routers the same is supposed.
        """
        while self._begun and self._begun[0][0] < now - life_s:
            self._begun.popleft()
        stalled_s = more_s + sum(seconds for _, seconds in self._begun)
        return min(_MOST_SHARE, routers * stalled_s / life_s) if life_s > 0.0 else 0.0
