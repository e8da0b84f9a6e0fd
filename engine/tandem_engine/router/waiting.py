"""The one queue in front of the pool: who goes next, to which prefill pod, and who is shed.

Requests that can still meet their TTFT go first, the most urgent of them foremost; those that no
longer can wait behind them. An overload then costs the excess and not everybody.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_engine.router.fleet import Deserted, Fleet, Pod, Role, least_loaded
from tandem_engine.router.settings import SettingsHolder


class DecodeOnly(StrEnum):
    """Why a request went to a decode pod without a prefill pod."""

    NO_PREFILL = "no_prefill"
    NO_PAIR = "no_pair"
    UNSUPPORTED = "unsupported"
    PREFILL_FAILED = "prefill_failed"
    PREFILL_TIMEOUT = "prefill_timeout"
    NO_KV_PARAMS = "no_kv_params"
    RETRY = "retry"


class QueueFull(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """The request was shed: the queue is at its bound."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request goes; its work is counted there until `Waiting.release`."""

    prefill: Pod | None
    decode_only: DecodeOnly | None = None


@dataclass(slots=True, eq=False)
class Waiter:
    """One request that waits.

    Attributes:
        deadline_s: when its TTFT bound passes.
        expected_s: how long it will take from dispatch to its first token, as far as known.
        split: whether it may use a prefill pod at all.
    """

    deadline_s: float
    tokens: int
    expected_s: Callable[[], float]
    split: bool
    placed: "asyncio.Future[Placement]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Waiting:
    """Admits requests to prefill pods as these have room."""

    def __init__(
        self, *, fleet: Fleet, settings: SettingsHolder, clock: Callable[[], float]
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._clock = clock
        self._urgent: list[tuple[float, int, Waiter]] = []
        self._hopeless: deque[Waiter] = deque()
        self._unsplit: deque[Waiter] = deque()
        self._entered = 0
        self._alive: dict[Waiter, None] = {}
        fleet.listen(self.pump)

    @property
    def requests(self) -> int:
        """Return how many requests wait."""
        return len(self._alive)

    @property
    def prompt_tokens(self) -> int:
        """Return the prompt tokens of all waiting requests."""
        return sum(waiter.tokens for waiter in self._alive)

    async def admit(self, waiter: Waiter) -> Placement:
        """Wait for a place; raises `QueueFull` when this request is shed instead.

        Raises `Deserted` when no decode pod is left and the router is about to end.
        """
        self._entered += 1
        self._alive[waiter] = None
        if waiter.split:
            heapq.heappush(self._urgent, (waiter.deadline_s, self._entered, waiter))
        else:
            self._unsplit.append(waiter)
        self.pump()
        if not waiter.placed.done():
            self._shed_over_bound()
        try:
            return await waiter.placed
        except BaseException:
            placed = waiter.placed
            if placed.done() and not placed.cancelled() and placed.exception() is None:
                self.release(placed.result().prefill, tokens=waiter.tokens)
            raise
        finally:
            self._alive.pop(waiter, None)

    def release(self, pod: Pod | None, *, tokens: int) -> None:
        """Give back the place of a request that is no longer at its prefill pod."""
        if pod is not None:
            pod.leave(tokens)
            self.pump()

    def pump(self) -> None:
        """Place every request for which there is room."""
        if not self._alive:
            self._urgent.clear()
            self._hopeless.clear()
            self._unsplit.clear()
            return
        if self._fleet.deserted:
            self._dismiss()
            return
        settings = self._settings.current
        revisions = self._fleet.revisions(Role.DECODE)
        if settings is None or not revisions:
            return
        while self._unsplit:
            self._place(self._unsplit.popleft(), Placement(None, DecodeOnly.UNSUPPORTED))
        paired = self._fleet.usable(Role.PREFILL, revisions=revisions)
        if not paired and self._fleet.doubtful(Role.PREFILL, revisions=revisions):
            return
        most = settings.limits.prefill_requests_per_pod
        while True:
            pod = least_loaded(pod for pod in paired if pod.requests < most)
            if paired and pod is None:
                return
            waiter = self._next()
            if waiter is None:
                return
            if pod is None:
                reason = (
                    DecodeOnly.NO_PAIR
                    if self._fleet.usable(Role.PREFILL)
                    else DecodeOnly.NO_PREFILL
                )
                self._place(waiter, Placement(None, reason))
                continue
            pod.enter(waiter.tokens)
            self._place(waiter, Placement(pod))

    def _next(self) -> Waiter | None:
        self._sort_out_hopeless()
        if self._urgent:
            return heapq.heappop(self._urgent)[2]
        while self._hopeless:
            waiter = self._hopeless.popleft()
            if not waiter.placed.done():
                return waiter
        return None

    def _sort_out_hopeless(self) -> None:
        """Leave at the front of the urgent a request that can still meet its TTFT."""
        now = self._clock()
        while self._urgent:
            waiter = self._urgent[0][2]
            if not waiter.placed.done():
                if now + waiter.expected_s() <= waiter.deadline_s:
                    return
                self._hopeless.append(waiter)
            heapq.heappop(self._urgent)

    def _shed_over_bound(self) -> None:
        settings = self._settings.current
        if settings is None or len(self._alive) <= settings.limits.queued_requests:
            return
        self._sort_out_hopeless()
        while self._hopeless:
            waiter = self._hopeless.pop()
            if not waiter.placed.done():
                break
        else:
            waiter = next(reversed(self._alive))
        self._alive.pop(waiter, None)
        waiter.placed.set_exception(QueueFull())

    def _dismiss(self) -> None:
        for waiter in self._alive:
            if not waiter.placed.done():
                waiter.placed.set_exception(Deserted())

    def _place(self, waiter: Waiter, placement: Placement) -> None:
        self._alive.pop(waiter, None)
        if not waiter.placed.done():
            waiter.placed.set_result(placement)
