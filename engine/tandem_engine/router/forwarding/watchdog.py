"""A deadline that can move on every chunk at the price of one assignment.

`asyncio.Timeout.reschedule` cancels and makes a timer each time. Here, when the alarm rings, the
watchdog checks whether the deadline has moved.
"""

import asyncio
from types import TracebackType

from tandem_engine.router.forwarding.alarms import Alarm, Alarms


class Watchdog:
    """Raises `TimeoutError` in its block once the loop's clock passes the deadline."""

    def __init__(self, alarms: Alarms, at: float) -> None:
        self._alarms = alarms
        self._at = at
        self._alarm: Alarm | None = None
        self._task: asyncio.Task[object] | None = None
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
        self.move(asyncio.get_running_loop().time())
        return True

    def __enter__(self) -> "Watchdog":
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._task, self._cancelling = task, task.cancelling()
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
        task, self._task = self._task, None
        # As in `asyncio.Timeout`: another may have cancelled the task as well.
        if not self._expired or task is None or task.uncancel() > self._cancelling:
            return
        if kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _set(self) -> None:
        if self._alarm is not None:
            self._alarms.cancel(self._alarm)
        self._alarm = self._alarms.set(self._at, self._ring)

    def _ring(self) -> None:
        if asyncio.get_running_loop().time() < self._at:
            self._set()
        elif self._task is not None and not self._expired:
            self._expired = True
            self._task.cancel()
