"""When clients came and were answered: what a drain goes by that must not leave one of them alone.

Load balancers hear of a drain late, and later where the machine is busy. Who has come lately tells
what no fixed delay can: that some of them have not heard.
"""

import asyncio
import math
from collections.abc import Callable


class Visits:
    """The moments of the last request and of the last answer; probes are none."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._came_s = self._left_s = -math.inf

    def come(self) -> None:
        """Take note of a request."""
        self._came_s = self._clock()

    def leave(self) -> None:
        """Take note of the end of an answer."""
        self._left_s = self._clock()

    def still_s(self, quiet_s: float) -> float:
        """Return the seconds until nobody will have come or been answered for `quiet_s`."""
        return max(self._came_s, self._left_s) + quiet_s - self._clock()

    async def cease(self, quiet_s: float, *, until_s: float) -> None:
        """Wait until nobody has come for `quiet_s`, from now on, or the clock is at `until_s`."""
        began_s = self._clock()
        while True:
            quiet_at_s = max(began_s, self._came_s) + quiet_s
            left_s = min(quiet_at_s, until_s) - self._clock()
            if left_s <= 0:
                return
            await asyncio.sleep(left_s)
