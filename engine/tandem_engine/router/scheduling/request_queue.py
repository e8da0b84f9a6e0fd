"""The one queue in front of the pool: what goes next, to which prefill pod, and what is shed.

Requests that can still meet their TTFT go first, the most urgent of them foremost; those that no
longer can wait behind them. An overload then costs the excess and not everybody. Where decode pods
bear no more streams, all wait here, also those that use no prefill pod. A request of which nothing
can be said fails alone: what makes the queue look again, a pod's watch or the end of another
request, hears nothing of it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.pods.fleet import Deserted, EnginePods
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.lines import Lines, in_order
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_engine.router.scheduling.places import Places
from tandem_engine.router.scheduling.pod_finder import PodFinder, QueueLook
from tandem_engine.router.scheduling.queued import Queued, queued_of
from tandem_engine.router.scheduling.spare_room import BestEffort
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import SettingsHolder
from tandem_engine.router.stopwatch import Stopwatch
from tandem_routing.deadline_queue import Next, Prospect, Turn, Unfit, turn_of
from tandem_routing.foresight import Foresight, retry_after_s
from tandem_routing.overflow import helped, spare
from tandem_routing.prefix_placement import Apart

# A pod that hangs says nothing, and a request that waits for it alone should find that it is late.
_LOOK_AGAIN_S = 0.05

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class QueueFull(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """The request was shed: the queue is at its bound.

    Attributes:
        at_once: it had not waited yet.
    """

    at_once: bool


@dataclass(slots=True)
class TooLate(Exception):  # noqa: N818 - an event of ordinary operation, not a fault
    """The request was refused, because it could not be on time any more."""

    retry_after_s: int


class RequestQueue:
    """Admits requests to prefill pods as these, and the decode pods, have room.

    Attributes:
        caches: what prefill pods should have cached of the prompts that they were sent.
        places: those of the requests that were let in.
    """

    def __init__(
        self,
        *,
        fleet: EnginePods,
        settings: SettingsHolder,
        clock: Callable[[], float],
        caches: PrefillCaches | None = None,
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._clock = clock
        self._lines = Lines(now=clock())
        self.caches = caches or PrefillCaches()
        self.places = Places(caches=self.caches, clock=clock, freed=self.pump)
        self._finder = PodFinder(coming=self.places.coming, caches=self.caches, clock=clock)
        self._best_effort = BestEffort(
            lines=self._lines,
            guaranteed=self.places.guaranteed,
            fleet=fleet,
            finder=self._finder,
            place=self._place,
            place_whole=self._place_whole,
            clock=clock,
            look_again=self._look_again,
        )
        self._foresight: Foresight[Waiter] = Foresight()
        self._alive: dict[Waiter, None] = {}
        self._held = Stopwatch()
        self._waking = False
        self._look: QueueLook | None = None
        self._again: asyncio.TimerHandle | None = None
        fleet.listen_for_ends(self.caches.forget)
        fleet.listen(self.pump)

    @property
    def requests(self) -> int:
        """Return how many requests wait."""
        return len(self._alive)

    def queued(self) -> Queued:
        """Return what the operator should know of the waiting requests."""
        now = self._clock()
        return queued_of(self._alive, held_s=self._held.total_s(now), now=now)

    @property
    def held(self) -> bool:
        """Return whether it is the decode pods that the requests wait for."""
        return self._held.running and bool(self._alive)

    def held_s(self, now: float) -> float:
        """Return for how long, in all, decode pods held requests back."""
        return self._held.total_s(now)

    async def admit(
        self, waiter: Waiter, *, by_s: Callable[[], float] | None = None
    ) -> PrefillPlacement:
        """Wait for a place, to be given back by the caller, come what may.

        `by_s` returns when the wait ends with a `TimeoutError`. It is called only if there is one.

        Raises `QueueFull` when this request is shed instead, and `TooLate` when it is refused.

        Raises `Deserted` when no decode pod is left and the router is about to end.
        """
        waiter.entered_s = self._clock()
        waiter.held_before_s = self._held.total_s(waiter.entered_s)
        self._alive[waiter] = None
        self._waking |= waiter.wake_s > 0.0
        try:
            self._lines.add(waiter)
            if waiter.slo_class is not None:
                self._best_effort.came(waiter)
            self.pump()
            if not waiter.placed.done():
                self._shed_over_bound(waiter)
            if waiter.placed.done():
                return waiter.placed.result()
            async with asyncio.timeout_at(None if by_s is None else by_s()):
                return await waiter.placed
        except BaseException:
            placed = waiter.placed
            if placed.done() and not placed.cancelled() and placed.exception() is None:
                self.places.give_back(placed.result())
            raise
        finally:
            self._leave(waiter)

    def at_once(self, waiter: Waiter) -> PrefillPlacement | None:
        """Return the place that `admit` would give a request at once, if that is easily told.

        It is where nobody waits, every pod has room, and the request can be on time. `None`: it
        has to be admitted.
        """
        settings, now = self._settings.current, self._clock()
        queued = self._alive or not waiter.split or waiter.slo_class is not None
        if queued or waiter.wake_s or settings is None or self._fleet.deserted:
            return None
        self.caches.hear(settings)
        look = self._look_by(settings)
        room = None if look is None else look.room(waiter)
        if look is None or not room or len(room) < len(look.prefill):
            return None
        try:
            turn = turn_of(waiter)
            if self._prospect(room, settings).start_s + turn.to_first_s > waiter.deadline_s:
                return None
            chosen, borne = self._finder.find(turn, room, look, late=False)
        except Unfit:
            # To admit it answers it with what made it unfit.
            return None
        self._held.turn(on=not borne, now=now)
        if not borne:
            return None
        self._lines.pass_by(turn)
        return self.places.take(turn, chosen)

    def _look_by(self, settings: RouterSettings) -> QueueLook | None:
        look = self._look
        if look is None or not look.still_holds(self._fleet, settings):
            look = self._look = QueueLook.at(self._fleet, settings)
        return look

    def settle(self, waiter: Waiter, *, used_tokens: int) -> None:
        """Count a request that has ended by the tokens that it used, in the share of its tenant."""
        self._lines.settle(waiter, used_tokens=used_tokens)

    def ended(self, waiter: Waiter, *, first_token_s: float | None) -> None:
        """Learn from a request that has ended whether one that was set aside can be on time."""
        self._foresight.ended(waiter, first_token_s=first_token_s, now=self._clock())

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
        settings = self._settings.current
        if settings is not None:
            self.caches.hear(settings)
        if not self._alive:
            return False
        if self._fleet.deserted:
            self._dismiss()
            return False
        look = None if settings is None else self._look_by(settings)
        if look is None:
            return False
        if self._waking:
            self._waking = False
            self._lines.woken(self._alive, self._clock())
        self._lines.reconsider(look.prefill, self._clock())
        apart: Apart[Waiter] = Apart()
        held = self._let_in(look, apart)
        self._refuse_late(look)
        if apart.waiters:
            self._look_again()
        return held

    def _let_in(self, look: QueueLook, apart: Apart[Waiter]) -> bool:
        """Place requests that pods have room for; return whether decode pods hold up the next.

        Those that wait for a pod of their own are set `apart`. What goes first is the same
        whichever pods it uses: neither kind can keep the other waiting for ever.
        """
        now = self._clock()
        nobody = Prospect(now, pods=1)
        while self._alive:
            owed = self._best_effort.owed(look)
            if owed:
                continue
            if owed is False:
                return False
            found: Next[Waiter] = Next(None, late=False)
            if look.prefill:
                prospect = self._prospect(look.prefill, look.settings)
                found = self._lines.split.next(prospect, now=now, apart_from=apart.waiters)
                if self._overflowed(found.excess, look):
                    continue
            elif look.alone is not None:
                found = self._lines.split.next(nobody, now=now)
            turns = in_order(found, self._lines.whole.next(nobody, now=now))
            placed = self._first_with_room(turns, look, apart)
            if placed is None:
                return True
            if not placed and (turns or not self._best_effort.filled(look)):
                return False
        return False

    def _first_with_room(
        self, turns: Sequence[tuple[Turn[Waiter], bool]], look: QueueLook, apart: Apart[Waiter]
    ) -> bool | None:
        """Place the first of these that has room at a pod, or set it apart; False: none has.

        None: decode pods hold it up.
        """
        for first, late in turns:
            turn = first
            room = look.room(turn.waiter)
            if room == []:
                continue
            if room and turn.waiter.prefix.marks:
                # Since it was asked others may have been sent somewhere that begin alike.
                turn = turn_of(turn.waiter)
                if apart.takes(turn, look.prefill, room, now=self._clock()):
                    return True
            chosen, borne = self._finder.find(turn, room or (), look, late=late)
            if not borne:
                return None
            self._place(turn, chosen, look.reason(turn.waiter))
            return True
        return False

    def _look_again(self) -> None:
        """Look again in a moment, once for all that wait for nothing but the time."""
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._looked_again)

    def _looked_again(self) -> None:
        self._again = None
        self.pump()

    def _prospect(self, prefill: Sequence[Pod], settings: RouterSettings) -> Prospect:
        overflow = settings.decode is not None and settings.decode.overflow
        return Prospect.of(prefill, now=self._clock(), helped=overflow)

    def _overflowed(self, excess: Sequence[Turn[Waiter]], look: QueueLook) -> bool:
        """Place one of these whole at a decode pod that has slack for it, if there is any."""
        pace, tpot_s, now = look.settings.decode, look.settings.slo.tpot_s, self._clock()
        if pace is None or not excess:
            return False
        pods = spare(look.decode_pods, pace, now=now, tpot_s=tpot_s)
        found = helped(excess, pods, pace, now=now, tpot_s=tpot_s) if pods else None
        if found is not None:
            self._place_whole(*found)
        return found is not None

    def _place(
        self, turn: Turn[Waiter], pod: Pod | None, decode_only: DecodeOnly | None = None
    ) -> None:
        self._serve(turn)
        self.places.take(turn, pod, decode_only)

    def _place_whole(self, turn: Turn[Waiter], pod: Pod) -> None:
        self._serve(turn)
        self.places.take_whole(turn, pod)

    def _refuse_late(self, look: QueueLook) -> None:
        """Refuse those that prefill pods will serve late, as far as that has proven itself."""
        # A class can be edited while its requests wait.
        classes = {each.name for each in look.settings.classes if each.refuse_late}
        if not look.prefill or not classes:
            return
        if self._alive:
            # A request can become late without any event.
            self._look_again()
        now, line = self._clock(), self._lines.split
        newly_late = (waiter for waiter in line.newly_late() if waiter.slo_class in classes)
        late = self._foresight.refused(newly_late, now=now)
        if not late:
            return
        prospect = self._prospect(look.prefill, look.settings)
        work_s = line.work_s(now)
        for waiter in late:
            again_s = retry_after_s(waiter, prospect, work_s=work_s, now=now)
            self._leave(waiter)
            waiter.placed.set_exception(TooLate(again_s))

    def _shed_over_bound(self, newest: Waiter) -> None:
        settings = self._settings.current
        if settings is None or len(self._alive) <= settings.limits.queued_requests:
            return
        now = self._clock()
        prospect = self._prospect(self._fleet.usable(Role.PREFILL), settings)
        try:
            waiter = self._lines.to_shed(prospect.start_s, now) or next(reversed(self._alive))
        except Unfit as unfit:
            self._fail(unfit)
            return
        self._alive.pop(waiter, None)
        waiter.placed.set_exception(QueueFull(at_once=waiter is newest))

    def _fail(self, unfit: Unfit) -> None:
        """Answer one request with what made it unfit; what serves it says so once."""
        waiter = unfit.waiter
        if not isinstance(waiter, Waiter):
            raise TypeError(f"expected a Waiter, got {type(waiter).__name__}")
        self._alive.pop(waiter, None)
        waiter.placed.set_exception(unfit.__cause__ or unfit)

    def _dismiss(self) -> None:
        for waiter in self._alive:
            if not waiter.placed.done():
                waiter.placed.set_exception(Deserted())

    def _serve(self, turn: Turn[Waiter]) -> None:
        self._alive.pop(turn.waiter, None)
        self._lines.serve(turn)

    def _leave(self, waiter: Waiter) -> None:
        self._alive.pop(waiter, None)
        self._lines.remove(waiter)
