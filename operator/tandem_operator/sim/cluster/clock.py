"""Virtual time: what happens next, in order of time and then of being planned."""

from collections.abc import Callable
from heapq import heappop, heappush

Act = Callable[[], None]


class BusyTime:
    """How long something lasted, in all."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._total_s = 0.0

    def turn(self, *, on: bool, now_s: float) -> None:
        """It lasts from now on, or no more; or nothing changed."""
        if on and self._since_s is None:
            self._since_s = now_s
        elif not on:
            self._total_s = self.total_s(now_s)
            self._since_s = None

    def total_s(self, now_s: float) -> float:
        """Seconds until now."""
        return self._total_s + (0.0 if self._since_s is None else now_s - self._since_s)


class Clock:
    """Planned acts. Time only moves when the next one is taken."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._planned: list[tuple[float, int, Act]] = []
        self._count = 0

    def at(self, time_s: float, act: Act) -> None:
        """Plan `act`; a time that has passed means now."""
        self._count += 1
        heappush(self._planned, (max(time_s, self.now_s), self._count, act))

    def after(self, delay_s: float, act: Act) -> None:
        """Plan `act` in `delay_s` seconds."""
        self.at(self.now_s + delay_s, act)

    def step(self) -> bool:
        """Do the next act; false when nothing is planned."""
        if not self._planned:
            return False
        self.now_s, _, act = heappop(self._planned)
        act()
        return True
