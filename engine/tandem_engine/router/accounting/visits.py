"""The times of requests and answers, by which a drain knows when clients have stopped.

Load balancers learn of a drain late, and later on a busy machine. A recent request shows that some
of them have not learned of it yet. No fixed delay can show that.
"""

import asyncio
import math
from collections.abc import Callable


class Visits:
    """The times of the last request and of the last answer; probes do not count."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._came_s = self._left_s = -math.inf

    def come(self) -> None:
        """Record a request."""
        self._came_s = self._clock()

    def leave(self) -> None:
        """Record the end of an answer."""
        self._left_s = self._clock()

    def still_s(self, quiet_s: float) -> float:
        """Return the seconds until there was neither a request nor an answer for `quiet_s`."""
        return max(self._came_s, self._left_s) + quiet_s - self._clock()

    async def cease(self, quiet_s: float, *, until_s: float) -> None:
        """Wait until no request came for `quiet_s` from now on, or until the clock is `until_s`."""
        began_s = self._clock()
        while True:
            quiet_at_s = max(began_s, self._came_s) + quiet_s
            left_s = min(quiet_at_s, until_s) - self._clock()
            if left_s <= 0:
                return
            await asyncio.sleep(left_s)
