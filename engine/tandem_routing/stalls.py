"""Prompts that a decode pod computes itself, and the time that its streams wait for them."""

from bisect import bisect_left

LONGEST_LIFE_S = 600.0
_MOST_SHARE = 0.9


class Stalls:
    """Whole requests at one decode pod; times are seconds of one clock.

    Attributes:
        computing: prompts whose first token has not come.
    """

    __slots__ = ("_begun", "_sums", "computing")

    def __init__(self) -> None:
        self.computing = 0
        self._begun: list[float] = []
        # What had been begun before each, and last of all what has been by now.
        self._sums = [0.0]

    @property
    def begun(self) -> bool:
        """Return whether the pod began a prompt that may still count."""
        return bool(self._begun)

    def begin(self, seconds: float, now: float) -> None:
        """Record a prompt that takes so many seconds."""
        self.computing += 1
        forgotten = bisect_left(self._begun, now - LONGEST_LIFE_S)
        del self._begun[:forgotten], self._sums[:forgotten]
        self._begun.append(now)
        self._sums.append(self._sums[-1] + seconds)

    def end(self) -> None:
        """Record that a prompt is computed, or never will be."""
        self.computing -= 1

    def share(self, now: float, *, life_s: float, more_s: float = 0.0, routers: int = 1) -> float:
        """Return the share of a stream's life that it waits for prompts, `more_s` included.

        A stream that waits for a share `s` of its life makes its tokens in the rest, so its TPOT is
        its step time over 1 - s. Each other router is assumed to cause the same waits.
        """
        life_s = min(life_s, LONGEST_LIFE_S)
        if life_s <= 0.0:
            return 0.0
        stalled_s = more_s + self._sums[-1] - self._sums[bisect_left(self._begun, now - life_s)]
        return min(_MOST_SHARE, routers * stalled_s / life_s)
