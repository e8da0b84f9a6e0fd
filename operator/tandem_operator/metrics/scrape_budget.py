"""The budget of one pool's metrics in one tick: time, connections, bytes and reading.

The author of a pool chooses its pods and its Prometheus server, but all pools share the process. So
each pool has its own budget, and its reads never wait for those of another pool.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

TICK_S = 4.0
"""Time of one look: it is below the five seconds between two looks at a pool."""
AT_ONCE = 32
BYTES, BYTES_PER_POD = 8 * 1024 * 1024, 128 * 1024
READING_S, READING_PER_POD_S = 0.5, 0.002

T = TypeVar("T")

# One thread for all pools: it parses their answers one after another, so its memory never adds up.
_READER = ThreadPoolExecutor(1, thread_name_prefix="reading")


class NoAnswerError(Exception):
    """A pod or a server did not answer, or gave another answer than a valid one."""


class ScrapeBudget:
    """One pool's share of the operator in one tick, for so many pods."""

    def __init__(self, *, pods: int, seconds: float = TICK_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._ends_s = self._loop.time() + seconds
        self._bytes = BYTES + BYTES_PER_POD * pods
        self._reading_s = READING_S + READING_PER_POD_S * pods
        self._one_reads = asyncio.Semaphore(1)
        self._slots = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def asking(self, of: str, *, limit_s: float) -> AsyncIterator[float]:
        """Wait for one of the pool's connections; yields the seconds that it may take.

        A `TimeoutError` inside means that they are over.
        """
        try:
            async with asyncio.timeout_at(self._ends_s):
                await self._slots.acquire()
        except TimeoutError:
            took = f"not asked, since its pool took {self._seconds:g} s already"
            raise NoAnswerError(f"{of}: {took}") from None
        try:
            limit_s = min(limit_s, max(0.0, self._ends_s - self._loop.time()))
            async with asyncio.timeout(limit_s):
                yield limit_s
        finally:
            self._slots.release()

    def spend(self, size: int, *, of: str) -> None:
        """Count arrived bytes; raises if the pool sent too many."""
        self._bytes -= size
        if self._bytes < 0:
            raise NoAnswerError(f"{of}: not read, since its pool sent too much in one tick")

    async def read(self, parse: Callable[[], T], *, of: str) -> T:
        """Return the result of `parse` for an answer, off the loop, one of the pool's at a time.

        A pool's next answer queues behind one of each other pool, not behind all of theirs.
        """
        async with self._one_reads:
            if self._reading_s <= 0.0:
                raise NoAnswerError(f"{of}: not read, since its pool's answers take too long")
            result, took_s = await self._loop.run_in_executor(_READER, _timed, parse)
            self._reading_s -= took_s
        if isinstance(result, Exception):
            raise result
        return result


def _timed(parse: Callable[[], T]) -> tuple[T | Exception, float]:
    """Return the result or the failure, and the time that the thread worked for it."""
    began_s = time.thread_time()
    try:
        result: T | Exception = parse()
    except Exception as error:
        result = error
    return result, time.thread_time() - began_s
