"""A deadline that can move on every chunk at the price of one assignment.

`asyncio.Timeout.reschedule` cancels and makes a timer each time. Here, when the alarm rings, the
watchdog checks whether the deadline has moved.
"""

import asyncio
from types import TracebackType

from tandem_engine.router.forwarding.alarms import Alarm, Alarms


class Watchdog:
    """Raises `TimeoutError` in its block once the loop's clock passes the deadline.

    `task` is the one that runs the block.
    """

    __slots__ = ("_alarm", "_alarms", "_at", "_cancelling", "_expired", "_task")

    def __init__(self, alarms: Alarms, at: float, task: "asyncio.Task[object]") -> None:
        self._alarms = alarms
        self._at = at
        self._alarm: Alarm | None = None
        self._task = task
        self._cancelling = 0
        self._expired = False

    def move(self, at: float) -> None:
        """Set a new deadline, earlier or later."""
        self._at = at
        if self._alarm is not None and at < self._alarm.at:
            self._set()

    def end(self) -> bool:
        """Raise at once; return whether the block will still see it."""
        if self._alarm is None or self._expired:
            return False
        self.move(self._alarms.time())
        return True

    def __enter__(self) -> "Watchdog":
        self._cancelling = self._task.cancelling()
        self._set()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._alarm is not None:
            self._alarms.cancel(self._alarm)
            self._alarm = None
        # As in `asyncio.Timeout`: another may have cancelled the task as well.
        uncancelled = self._expired and self._task.uncancel() <= self._cancelling
        if uncancelled and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _set(self) -> None:
        if self._alarm is not None:
            self._alarms.cancel(self._alarm)
        self._alarm = self._alarms.set(self._at, self._ring)

    def _ring(self) -> None:
        if self._alarms.time() < self._at:
            self._set()
        elif not self._expired:
            self._expired = True
            self._task.cancel()
