"""The one queue in front of the pool: who goes next, to which prefill pod, and who is shed.

Requests that can still meet their TTFT go first, the most urgent of them foremost; those that no
longer can wait behind them. An overload then costs the excess and not everybody. Where decode pods
bear no more streams, all wait here.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_engine.router.fleet import Deserted, Fleet, Load, Pod, Role, least_loaded
from tandem_engine.router.gate import Coming, bears
from tandem_engine.router.settings import Settings, SettingsHolder
from tandem_engine.router.stopwatch import Stopwatch

_OVERDUE_S = 60.0


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


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a request goes; `load` is counted at its prefill pod until `Waiting.release`."""

    prefill: Pod | None
    load: Load
    decode_only: DecodeOnly | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of one request, as far as known.

    Attributes:
        service_s: its prefill alone on a pod.
        pass_s: the part of that which prompts in one pass share.
        rest_s: from the end of its prefill to its first token.
        output_tokens: what it will make.
    """

    service_s: float = 0.0
    pass_s: float = 0.0
    rest_s: float = 0.0
    output_tokens: int = 0


@dataclass(slots=True, eq=False)
class Waiter:
    """One request that waits.

    Attributes:
        deadline_s: when its TTFT bound passes.
        expected: asked anew whenever it matters: more is known then.
        split: whether it may use a prefill pod at all.
        entered_s, held_before_s: when it came, and how long decode pods had held requests by then.
    """

    deadline_s: float
    tokens: int
    expected: Callable[[], Expected]
    split: bool
    entered_s: float = 0.0
    held_before_s: float = 0.0
    placed: "asyncio.Future[Placement]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


@dataclass(slots=True)
class Queued:
    """Those who wait, and which of them decode pods held back for most of their wait.

    Attributes:
        overdue, held_overdue: whose TTFT bound passed within the last minute.
    """

    requests: int = 0
    prompt_tokens: int = 0
    held_prompt_tokens: int = 0
    overdue: int = 0
    held_overdue: int = 0


class Waiting:
    """Admits requests to prefill pods as these, and the decode pods, have room."""

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
        self._coming: dict[Placement, int] = {}
        self._held = Stopwatch()
        fleet.listen(self.pump)

    @property
    def requests(self) -> int:
        """Return how many requests wait."""
        return len(self._alive)

    def queued(self) -> Queued:
        """Return what the operator should know of those who wait."""
        now, found = self._clock(), Queued(requests=len(self._alive))
        held_s = self._held.total_s(now)
        for waiter in self._alive:
            held = held_s - waiter.held_before_s > 0.5 * (now - waiter.entered_s)
            overdue = now - _OVERDUE_S < waiter.deadline_s <= now
            found.prompt_tokens += waiter.tokens
            found.held_prompt_tokens += held * waiter.tokens
            found.overdue += overdue
            found.held_overdue += held and overdue
        return found

    @property
    def held(self) -> bool:
        """Return whether it is the decode pods that those who wait are waiting for."""
        return self._held.running and bool(self._alive)

    def held_s(self, now: float) -> float:
        """Return for how long, in all, decode pods held requests back."""
        return self._held.total_s(now)

    async def admit(self, waiter: Waiter) -> Placement:
        """Wait for a place; raises `QueueFull` when this request is shed instead.

        Raises `Deserted` when no decode pod is left and the router is about to end.
        """
        self._entered += 1
        self._alive[waiter] = None
        waiter.entered_s = self._clock()
        waiter.held_before_s = self._held.total_s(waiter.entered_s)
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
                placement = placed.result()
                self._coming.pop(placement, None)
                self.release(placement.prefill, placement.load)
            raise
        finally:
            self._alive.pop(waiter, None)

    def arrived(self, placement: Placement) -> None:
        """Take note that a request is at its decode pod, or never will be."""
        if self._coming.pop(placement, None) is not None:
            self.pump()

    def release(self, pod: Pod | None, load: Load) -> None:
        """Give back the place of a request that is no longer at `pod`."""
        if pod is not None:
            pod.leave(load, self._clock())
            self.pump()

    def pump(self) -> None:
        """Place every request for which there is room."""
        self._held.turn(on=self._pumped(), now=self._clock())

    def _pumped(self) -> bool:
        """Place them; return whether decode pods are what the next one waits for."""
        if not self._alive:
            self._urgent.clear()
            self._hopeless.clear()
            self._unsplit.clear()
            return False
        if self._fleet.deserted:
            self._dismiss()
            return False
        settings = self._settings.current
        revisions = self._fleet.revisions(Role.DECODE)
        if settings is None or not revisions:
            return False
        while self._unsplit:
            waiter = self._unsplit.popleft()
            self._place(waiter, None, waiter.expected(), DecodeOnly.UNSUPPORTED)
        paired = self._fleet.usable(Role.PREFILL, revisions=revisions)
        if paired:
            return self._split(paired, settings)
        if not self._fleet.doubtful(Role.PREFILL, revisions=revisions):
            known = self._fleet.usable(Role.PREFILL)
            reason = DecodeOnly.NO_PAIR if known else DecodeOnly.NO_PREFILL
            while (alone := self._next(())) is not None:
                self._take(alone)
                self._place(alone, None, alone.expected(), reason)
        return False

    def _split(self, prefill: Sequence[Pod], settings: Settings) -> bool:
        """Place who uses prefill and decode pods; return whether the latter hold up the next."""
        decode = self._fleet.usable(Role.DECODE)
        limits = settings.limits
        while (waiter := self._next(prefill)) is not None:
            expected = waiter.expected()
            pod = least_loaded(
                pod for pod in prefill if limits.has_room(pod.requests, pod.tokens, waiter.tokens)
            )
            if pod is None:
                return False
            if not self._borne(waiter, expected, decode, settings):
                return True
            self._take(waiter)
            self._place(waiter, pod, expected)
        return False

    def _next(self, prefill: Sequence[Pod]) -> Waiter | None:
        """Return who goes next: the most urgent that can be on time, else the first that cannot."""
        self._sort_out_hopeless(prefill)
        if self._urgent:
            return self._urgent[0][2]
        while self._hopeless:
            if not self._hopeless[0].placed.done():
                return self._hopeless[0]
            self._hopeless.popleft()
        return None

    def _take(self, waiter: Waiter) -> None:
        """Let the one that `_next` named leave the queue."""
        if self._urgent and self._urgent[0][2] is waiter:
            heapq.heappop(self._urgent)
        else:
            self._hopeless.popleft()

    def _sort_out_hopeless(self, prefill: Sequence[Pod]) -> None:
        """Leave at the front of the urgent a request that can still meet its TTFT."""
        now = self._clock()
        start_s = min((pod.free_s(now) for pod in prefill), default=now)
        while self._urgent:
            waiter = self._urgent[0][2]
            if not waiter.placed.done():
                expected = waiter.expected()
                if start_s + expected.service_s + expected.rest_s <= waiter.deadline_s:
                    return
                self._hopeless.append(waiter)
            heapq.heappop(self._urgent)

    def _borne(
        self, waiter: Waiter, expected: Expected, decode: Sequence[Pod], settings: Settings
    ) -> bool:
        if settings.decode is None:
            return True
        tokens = waiter.tokens + expected.output_tokens
        coming = Coming(
            requests=1 + len(self._coming),
            tokens=tokens + sum(self._coming.values()),
            output_tokens=expected.output_tokens,
        )
        late = not self._urgent
        return bears(settings.decode, decode, coming, tpot_s=settings.slo.tpot_s, late=late)

    def _shed_over_bound(self) -> None:
        settings = self._settings.current
        if settings is None or len(self._alive) <= settings.limits.queued_requests:
            return
        self._sort_out_hopeless(self._fleet.usable(Role.PREFILL))
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

    def _place(
        self,
        waiter: Waiter,
        pod: Pod | None,
        expected: Expected,
        decode_only: DecodeOnly | None = None,
    ) -> None:
        self._alive.pop(waiter, None)
        if waiter.placed.done():
            return
        work_s = expected.service_s
        if pod is not None and pod.requests:
            work_s = max(0.0, work_s - expected.pass_s)
        placement = Placement(pod, Load(waiter.tokens, work_s), decode_only)
        if pod is not None:
            pod.enter(placement.load, self._clock())
        self._coming[placement] = waiter.tokens + expected.output_tokens
        waiter.placed.set_result(placement)
