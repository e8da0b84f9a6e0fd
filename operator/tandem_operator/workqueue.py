"""A keyed, de-duplicating work queue: many changes give one pass; one worker per key.

A key is due when it was added, when its last pass asked for another, and after a failure with its
own exponential backoff. Nothing about a key is lost during its pass: it becomes due again. A pass
that returns `None` says that its key is gone.

Some keys were slow last time, because their pods do not answer. Passes over such keys never hold
all workers. So one author's many silent pools do not delay the pools of others.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WorkPace:
    """The pace of the passes over a key.

    Attributes:
        settle_s: wait of an addition for others, because changes come in bursts.
        between_s: least time from the start of one pass over a key to the start of the next.
        first_backoff_s: wait after one failure; doubled after each further one.
        last_backoff_s: the longest wait.
        limit_s: a pass that takes longer has failed.
        slow_s: a key whose last pass took longer is slow.
    """

    settle_s: float = 0.2
    between_s: float = 1.0
    first_backoff_s: float = 1.0
    last_backoff_s: float = 60.0
    limit_s: float = 60.0
    slow_s: float = 1.0


@dataclass(slots=True)
class _Entry:
    due_s: float
    running: bool = False
    added_while_running: bool = False
    started_s: float = float("-inf")
    failures: int = 0
    slow: bool = False
    """Whether its last pass was slow."""


class KeyedQueue(Generic[K]):
    """A queue that calls `work(key)` for keys that are due.

    Args:
        work: one pass; returns seconds until the next one, or `None` when the key is gone.
        workers: passes at one time, over all keys.
        for_quick: number of these workers that no slow key may hold.
        done: called with the outcome of every pass, for metrics.
        about: fields of a log line about a key.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 6,
        for_quick: int = 2,
        pace: WorkPace | None = None,
        done: Callable[[str, float], None] = lambda _result, _seconds: None,
        about: Callable[[K], Mapping[str, str]] = lambda key: {"key": str(key)},
    ) -> None:
        self._work = work
        self._workers = workers
        self._for_slow = max(1, workers - for_quick)
        self._pace = pace or WorkPace()
        self._done = done
        self._about = about
        self._entries: dict[K, _Entry] = {}
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.heartbeat_s = float("-inf")

    def add(self, key: K) -> None:
        """Ask for a pass soon. Never raises and never waits."""
        now_s = asyncio.get_running_loop().time()
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(due_s=now_s + self._pace.settle_s)
        elif entry.running:
            entry.added_while_running = True
        else:
            entry.due_s = min(entry.due_s, self._soon(entry, now_s))
        self._wake.set()

    @property
    def depth(self) -> int:
        """Return the keys that are due and not worked on yet."""
        now_s = asyncio.get_running_loop().time()
        return sum(1 for each in self._entries.values() if not each.running and each.due_s <= now_s)

    async def run(self) -> None:
        """Work until cancelled; passes in progress are then cancelled as well."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self.heartbeat_s = loop.time()
                self._wake.clear()
                wait_s = self._start_due(loop.time())
                try:
                    await asyncio.wait_for(self._wake.wait(), wait_s)
                except TimeoutError:
                    continue
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_due(self, now_s: float) -> float:
        """Start due keys that may start; return how long nothing more will be due."""
        longest_nap_s = 5.0
        slow = sum(1 for each in self._entries.values() if each.running and each.slow)
        for key, entry in sorted(self._entries.items(), key=lambda item: item[1].due_s):
            if entry.running:
                continue
            if entry.due_s > now_s:
                return min(longest_nap_s, entry.due_s - now_s)
            if len(self._tasks) >= self._workers:
                break
            if entry.slow and slow >= self._for_slow:
                continue
            slow += entry.slow
            entry.running, entry.started_s, entry.added_while_running = True, now_s, False
            task = asyncio.create_task(self._pass(key, entry), name=f"pass over {key}")
            self._tasks.add(task)
            task.add_done_callback(self._finished)
        return longest_nap_s

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _pass(self, key: K, entry: _Entry) -> None:
        loop = asyncio.get_running_loop()
        result = "error"
        try:
            async with asyncio.timeout(self._pace.limit_s):
                next_s = await self._work(key)
        except Exception as error:
            entry.failures += 1
            wait_s = self._backoff_s(entry.failures)
            log.warning(
                "pass failed",
                extra={
                    **self._about(key),
                    "why": repr(error),
                    "failures": entry.failures,
                    "retry_s": round(wait_s, 1),
                },
                # An outage is logged each time, its traceback only once.
                exc_info=error if entry.failures == 1 else None,
            )
            entry.due_s = loop.time() + wait_s
        else:
            result = "success"
            entry.failures = 0
            if next_s is None and not entry.added_while_running:
                del self._entries[key]
            else:
                now_s = loop.time()
                entry.due_s = now_s + (self._pace.last_backoff_s if next_s is None else next_s)
                if entry.added_while_running:
                    entry.due_s = min(entry.due_s, self._soon(entry, now_s))
        finally:
            took_s = loop.time() - entry.started_s
            entry.running, entry.slow = False, took_s > self._pace.slow_s
            self._done(result, took_s)

    def _soon(self, entry: _Entry, now_s: float) -> float:
        pace = self._pace
        earliest_s = max(now_s + pace.settle_s, entry.started_s + pace.between_s)
        if entry.failures:
            # Events must not defeat the backoff: an object that fails often changes often, too.
            earliest_s = max(earliest_s, entry.started_s + self._backoff_s(entry.failures) / 2)
        return earliest_s

    def _backoff_s(self, failures: int) -> float:
        pace = self._pace
        full_s = min(pace.last_backoff_s, pace.first_backoff_s * 2.0 ** min(failures - 1, 30))
        return full_s * random.uniform(0.75, 1.0)
