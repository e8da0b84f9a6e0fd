"""The load of this process: the share of one core that it used recently.

A router computes on one thread, so a share near one means that streams wait for it.
"""

from collections import deque
from collections.abc import Callable

WINDOW_S = 30.0
GRAIN_S = 1.0


class Busy:
    """The used share of one core over the last half minute, from the calls in that time.

    Args:
        clock: seconds of real time.
        cpu: seconds of CPU time of this process.
    """

    def __init__(self, *, clock: Callable[[], float], cpu: Callable[[], float]) -> None:
        self._clock = clock
        self._cpu = cpu
        self._marks = deque([(clock(), cpu())])

    def share(self) -> float:
        """Return the share of one core; 0 in the first second."""
        now_s, cpu_s = self._clock(), self._cpu()
        while len(self._marks) > 1 and self._marks[1][0] <= now_s - WINDOW_S:
            self._marks.popleft()
        since_s, before_s = self._marks[0]
        if now_s - self._marks[-1][0] >= GRAIN_S:
            self._marks.append((now_s, cpu_s))
        if now_s - since_s < GRAIN_S:
            return 0.0
        return max(0.0, cpu_s - before_s) / (now_s - since_s)
