"""Virtual time: the planned acts in order of time, then in order of planning."""

from collections.abc import Callable
from heapq import heappop, heappush

Act = Callable[[], None]


class BusyTime:
    """The total time for which a state lasted."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._total_s = 0.0

    @property
    def running(self) -> bool:
        """Return whether the state lasts now."""
        return self._since_s is not None

    def turn(self, *, on: bool, now_s: float) -> None:
        """Record whether the state lasts from now on; a repeated value changes nothing."""
        if on and self._since_s is None:
            self._since_s = now_s
        elif not on:
            self._total_s = self.total_s(now_s)
            self._since_s = None

    def total_s(self, now_s: float) -> float:
        """Return the seconds until now."""
        return self._total_s + (0.0 if self._since_s is None else now_s - self._since_s)


class Clock:
    """The planned acts. Time moves only when the next one is taken."""

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
        """Do the next act; return false if nothing is planned."""
        if not self._planned:
            return False
        self.now_s, _, act = heappop(self._planned)
        act()
        return True
