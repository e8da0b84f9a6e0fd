"""A deadline that can move on every chunk at the price of one assignment.

`asyncio.Timeout.reschedule` cancels and makes a timer each time. Here, when the timer fires, it
checks whether the deadline has moved.
"""

import asyncio
from types import TracebackType


class Watchdog:
    """Raises `TimeoutError` in its block once the loop's clock passes the deadline."""

    def __init__(self, at: float) -> None:
        self._at = at
        self._armed_at = at
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        self._handle: asyncio.TimerHandle | None = None

    def move(self, at: float) -> None:
        """Set a new deadline, earlier or later."""
        self._at = at
        if at < self._armed_at:
            self._arm()

    def end(self) -> bool:
        """Raise at once; return whether the block will still see it."""
        self.move(self._loop.time())
        return True

    async def __aenter__(self) -> "Watchdog":
        await self._timeout.__aenter__()
        self._arm()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
        await self._timeout.__aexit__(kind, error, traceback)

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_at = self._at
        self._handle = self._loop.call_at(self._at, self._fire)

    def _fire(self) -> None:
        if self._loop.time() < self._at:
            self._arm()
        else:
            self._timeout.reschedule(self._loop.time())
