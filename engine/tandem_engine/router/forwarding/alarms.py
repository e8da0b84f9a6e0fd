"""Times at which something ends if it is not over by then, nearly all of which never come.

A timer of the loop is one of the dearest steps of a request. So alarms that are far away share one
timer, which looks through those of the next second. Each of these then gets a timer of its own.
"""

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `ring` at its time, unless it is cancelled before."""

    __slots__ = ("at", "ring", "second", "timer")

    def __init__(self, at: float, ring: Callable[[], None]) -> None:
        self.at = at
        self.ring = ring
        self.second = int(at)
        self.timer: asyncio.TimerHandle | None = None


class Alarms:
    """All alarms of the running loop, by its clock."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._far: dict[int, dict[Alarm, None]] = {}
        self._next_second: int | None = None
        self._look: asyncio.TimerHandle | None = None

    def time(self) -> float:
        """Return the time of the loop."""
        return self._loop.time()

    def set(self, at: float, ring: Callable[[], None]) -> Alarm:
        """Return a new alarm."""
        alarm = Alarm(at, ring)
        second, loop = alarm.second, self._loop
        if second <= loop.time():
            alarm.timer = loop.call_at(at, ring)
            return alarm
        far = self._far.get(second)
        if far is None:
            far = self._far[second] = {}
            if self._next_second is None or second < self._next_second:
                self._look_at(second)
        far[alarm] = None
        return alarm

    def cancel(self, alarm: Alarm) -> None:
        """Let an alarm not ring; it may have rung already."""
        if alarm.timer is not None:
            alarm.timer.cancel()
        elif (far := self._far.get(alarm.second)) is not None:
            far.pop(alarm, None)

    def _look_at(self, second: int | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._next_second, self._look = second, None
        if second is not None:
            self._look = self._loop.call_at(second, self._looked)

    def _looked(self) -> None:
        """Give each alarm of this second its own timer."""
        loop = self._loop
        for second in [second for second in self._far if second <= loop.time()]:
            for alarm in self._far.pop(second):
                alarm.timer = loop.call_at(alarm.at, alarm.ring)
        self._look_at(min(self._far, default=None))
