"""The one queue in front of the pool: who goes next, to which prefill pod, and who is shed.

Requests that can still meet their TTFT go first, the most urgent of them foremost; those that no
longer can wait behind them. An overload then costs the excess and not everybody. Where decode pods
bear no more streams, all wait here, also those that use no prefill pod. Of whom nothing can be said
fails alone: whoever makes the queue look again, a pod's watch or the end of another request, hears
nothing of it.
"""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.pods.fleet import Deserted, EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.underway import Underway
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import SettingsHolder
from tandem_engine.router.stopwatch import Stopwatch
from tandem_routing.deadline_queue import (
    RECONSIDERED_EVERY_S,
    DeadlineQueue,
    Next,
    Prospect,
    Turn,
    Unfit,
)
from tandem_routing.history import OVERDUE_S
from tandem_routing.outstanding import Load
from tandem_routing.overflow import helped, spare
from tandem_routing.pairing import Gate, bearing, pair
from tandem_routing.pod_choice import Room

logger = logging.getLogger(__name__)


class QueueFull(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """The request was shed: the queue is at its bound."""


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


class RequestQueue:
    """Admits requests to prefill pods as these, and the decode pods, have room."""

    def __init__(
        self, *, fleet: EnginePods, settings: SettingsHolder, clock: Callable[[], float]
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._clock = clock
        self._line: DeadlineQueue[Waiter] = DeadlineQueue()
        self._whole: DeadlineQueue[Waiter] = DeadlineQueue()
        self._alive: dict[Waiter, None] = {}
        self._coming = Underway()
        self._computing: dict[PrefillPlacement, Pod] = {}
        self._at_prefill: set[PrefillPlacement] = set()
        self._held = Stopwatch()
        self._prefill: Sequence[Pod] = ()
        self._reconsidered_s = clock()
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
            overdue = now - OVERDUE_S < waiter.deadline_s <= now
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

    @asynccontextmanager
    async def place(self, waiter: Waiter) -> AsyncIterator[PrefillPlacement]:
        """Wait for a place and hold it; what is left of it at the end is given back, come what may.

        Raises what `admit` does.
        """
        placement = await self.admit(waiter)
        try:
            yield placement
        finally:
            self.give_back(placement)

    async def admit(self, waiter: Waiter) -> PrefillPlacement:
        """Wait for a place, to be given back by the caller, as `place` does.

        Raises `QueueFull` when this request is shed instead.

        Raises `Deserted` when no decode pod is left and the router is about to end.
        """
        self._alive[waiter] = None
        waiter.entered_s = self._clock()
        waiter.held_before_s = self._held.total_s(waiter.entered_s)
        try:
            (self._line if waiter.split else self._whole).add(waiter)
            self.pump()
            if not waiter.placed.done():
                self._shed_over_bound()
            return await waiter.placed
        except BaseException:
            placed = waiter.placed
            if placed.done() and not placed.cancelled() and placed.exception() is None:
                self.give_back(placed.result())
            raise
        finally:
            self._leave(waiter)

    def give_back(self, placement: PrefillPlacement) -> None:
        """Take back what is left of a place: at its pods nothing of it counts any more."""
        self.left_prefill(placement)
        self.computed(placement)
        self.arrived(placement)

    def arrived(self, placement: PrefillPlacement) -> None:
        """Take note that a request is at its decode pod, or never will be."""
        if self._coming.end(placement):
            self.pump()

    def computed(self, placement: PrefillPlacement) -> None:
        """Take note that a decode pod has computed a prompt by itself, or never will."""
        pod = self._computing.pop(placement, None)
        if pod is not None:
            pod.stalls.end()
            self.pump()

    def left_prefill(self, placement: PrefillPlacement) -> None:
        """Take note that a request has left its prefill pod, or never will be there."""
        if placement.prefill is not None and placement in self._at_prefill:
            self._at_prefill.discard(placement)
            self.release(placement.prefill, placement.load)

    def release(self, pod: Pod, load: Load) -> None:
        """Take note that a request has left `pod`, where `load` counted."""
        pod.leave(load, self._clock())
        self.pump()

    def pump(self) -> None:
        """Place every request for which there is room; raises nothing."""
        # A hold begins when the look does: a look on a busy machine is a wait of its own.
        began, held, looked = self._clock(), False, False
        while not looked:
            try:
                held = self._pumped()
                looked = True
            except Unfit as unfit:
                self._fail(unfit)
            except Exception as error:
                # Callers have pods and requests to see to that have nothing to do with this.
                logger.error("a look at the queue failed", extra={"why": type(error).__name__})
                looked = True
        self._held.turn(on=held, now=began)

    def _pumped(self) -> bool:
        """Place them; return whether decode pods are what the next one waits for."""
        if not self._alive:
            return False
        if self._fleet.deserted:
            self._dismiss()
            return False
        settings = self._settings.current
        revisions = self._fleet.revisions(Role.DECODE)
        if settings is None or not revisions:
            return False
        prefill = self._fleet.usable(Role.PREFILL, revisions=revisions)
        alone: DecodeOnly | None = None
        if not prefill and not self._fleet.doubtful(Role.PREFILL, revisions=revisions):
            known = self._fleet.usable(Role.PREFILL)
            alone = DecodeOnly.NO_PAIR if known else DecodeOnly.NO_PREFILL
        self._reconsider(prefill)
        return self._let_in(prefill, alone, settings)

    def _let_in(
        self, prefill: Sequence[Pod], alone: DecodeOnly | None, settings: RouterSettings
    ) -> bool:
        """Place whom pods have room for; return whether decode pods hold up the next.

        `alone` says why nobody uses a prefill pod, if so. Who goes first is the same whichever pods
        it uses: neither kind can keep the other waiting for ever.
        """
        decode = self._fleet.usable(Role.DECODE)
        by_revision = defaultdict(list)
        for pod in decode:
            by_revision[pod.endpoint.revision].append(pod)
        now = self._clock()
        nobody = Prospect(now, pods=1)
        while self._alive:
            found: Next[Waiter] = Next(None, late=False)
            if prefill:
                found = self._line.next(self._prospect(prefill, settings), now=now)
                if self._overflowed(found.excess, decode, settings):
                    continue
            elif alone is not None:
                found = self._line.next(nobody, now=now)
            for turn, late in _in_order(found, self._whole.next(nobody, now=now)):
                reason = alone if turn.waiter.split else DecodeOnly.UNSUPPORTED
                room = [] if reason is not None else _with_room(prefill, turn, settings)
                if reason is None and not room:
                    continue
                try:
                    chosen, borne = self._chosen(turn, room, by_revision, settings, late=late)
                except Exception as error:
                    raise Unfit(turn.waiter) from error
                if not borne:
                    return True
                self._place(turn, chosen, reason)
                break
            else:
                return False
        return False

    def _chosen(
        self,
        turn: Turn[Waiter],
        prefill: Sequence[Pod],
        decode: Mapping[str, Sequence[Pod]],
        settings: RouterSettings,
        *,
        late: bool,
    ) -> tuple[Pod | None, bool]:
        """Return the one of `prefill` to go to, if any is given, and whether decode bears it."""
        load, pace = turn.decode_load, settings.decode
        gate = Gate(
            pace if pace is not None and pace.gate else None,
            tpot_s=settings.slo.tpot_s,
            late=late,
            now=self._clock(),
        )
        if not prefill:
            return None, bool(bearing(load, decode, coming=self._coming, gate=gate))
        pod = pair(load, prefill, decode, coming=self._coming, gate=gate)
        return pod, pod is not None

    def _reconsider(self, prefill: Sequence[Pod]) -> None:
        """Ask those found to be late again: other pods are there, or more is known by now."""
        now = self._clock()
        if prefill != self._prefill or now >= self._reconsidered_s + RECONSIDERED_EVERY_S:
            self._prefill, self._reconsidered_s = prefill, now
            self._line.reconsider(now)
            self._whole.reconsider(now)

    def _prospect(self, prefill: Sequence[Pod], settings: RouterSettings) -> Prospect:
        overflow = settings.decode is not None and settings.decode.overflow
        return Prospect.of(prefill, now=self._clock(), helped=overflow)

    def _overflowed(
        self, excess: Sequence[Turn[Waiter]], decode: Sequence[Pod], settings: RouterSettings
    ) -> bool:
        """Place one of these whole at a decode pod that has slack for it, if there is any."""
        pace, tpot_s, now = settings.decode, settings.slo.tpot_s, self._clock()
        pods = spare(decode, pace, now=now, tpot_s=tpot_s) if pace is not None and excess else []
        if pace is None or not pods:
            return False
        found = helped(excess, pods, pace, now=now, tpot_s=tpot_s)
        if found is None:
            return False
        turn, pod = found
        pod.stalls.begin(turn.expected.whole_s, now)
        placement = self._place(turn, None, DecodeOnly.OVERFLOW, decode=pod)
        self._computing[placement] = pod
        return True

    def _shed_over_bound(self) -> None:
        settings = self._settings.current
        if settings is None or len(self._alive) <= settings.limits.queued_requests:
            return
        now = self._clock()
        prospect = self._prospect(self._fleet.usable(Role.PREFILL), settings)
        try:
            waiter = (
                self._line.shed(prospect.start_s, now=now)
                or self._whole.shed(now, now=now)
                or next(reversed(self._alive))
            )
        except Unfit as unfit:
            self._fail(unfit)
            return
        self._alive.pop(waiter, None)
        waiter.placed.set_exception(QueueFull())

    def _fail(self, unfit: Unfit) -> None:
        """Answer one request with what made it unfit; whoever serves it says so once."""
        waiter = unfit.waiter
        if not isinstance(waiter, Waiter):
            raise TypeError(f"expected a Waiter, got {type(waiter).__name__}")
        self._alive.pop(waiter, None)
        waiter.placed.set_exception(unfit.__cause__ or unfit)

    def _dismiss(self) -> None:
        for waiter in self._alive:
            if not waiter.placed.done():
                waiter.placed.set_exception(Deserted())

    def _place(
        self,
        turn: Turn[Waiter],
        pod: Pod | None,
        decode_only: DecodeOnly | None = None,
        *,
        decode: Pod | None = None,
    ) -> PrefillPlacement:
        """Send a request that was not placed yet on its way."""
        waiter, expected = turn.waiter, turn.expected
        self._leave(waiter)
        work_s = expected.work_s(alone=pod is None or not pod.requests)
        placement = PrefillPlacement(pod, Load(waiter.tokens, work_s), decode_only, decode)
        if pod is not None:
            pod.enter(placement.load, self._clock())
            self._at_prefill.add(placement)
        self._coming.begin(placement, turn.decode_load)
        waiter.placed.set_result(placement)
        return placement

    def _leave(self, waiter: Waiter) -> None:
        self._alive.pop(waiter, None)
        for line in (self._line, self._whole):
            line.remove(waiter)


def _with_room(prefill: Sequence[Pod], turn: Turn[Waiter], settings: RouterSettings) -> list[Pod]:
    limits = settings.limits
    room = Room(requests=limits.prefill_requests_per_pod, tokens=limits.prefill_tokens_per_pod)
    return room.at(prefill, prompt_tokens=turn.waiter.tokens)


def _in_order(*found: Next[Waiter]) -> list[tuple[Turn[Waiter], bool]]:
    """Return who goes first of each line, and whether it is late: the punctual, then the urgent."""
    ready = [(one.late, one.first.waiter.deadline_s, one.first) for one in found if one.first]
    ready.sort(key=lambda entry: entry[:2])
    return [(turn, late) for late, _, turn in ready]
