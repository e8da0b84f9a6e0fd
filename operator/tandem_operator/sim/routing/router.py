"""A pool's router: what waits, what goes to which pod, and what goes to decode pods whole."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.fleet import SimulatedFleet
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.decode_pace import TruePace
from tandem_operator.sim.routing.legs import RouterLegs
from tandem_operator.sim.routing.pod_finder import SimulatedPodFinder, Whole
from tandem_operator.sim.routing.pod_sides import DecodeSide, PrefillSide
from tandem_operator.sim.routing.pod_spread import PodSpread
from tandem_operator.sim.routing.router_queue import (
    QueuedFlight,
    QueueSettings,
    RouterQueue,
    Spread,
)
from tandem_operator.sim.routing.router_view import RouterView, Sees
from tandem_operator.sim.routing.waits import Waits
from tandem_operator.sim.traces.trace import BLOCK_TOKENS
from tandem_routing.deadline_queue import Next, Prospect, Turn, turn_of
from tandem_routing.foresight import Foresight
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.prefix_index import PrefixIndex
from tandem_routing.prefix_placement import Apart

_SEES = {Spread.PREFIX: Sees.HISTORY, Spread.CACHES: Sees.ALL}
GATE_LOOK_S = 0.02
SPARE_LOOK_S = 0.05


class SimulatedRouter:
    """Moves requests from the queue to prefill pods, and from these to decode pods.

    `start_pass` sets an idle prefill pod to work; `advance` brings a decode pod to the present;
    `shed` ends a request that waited too long; `refuse` one that would be late.
    """

    def __init__(
        self,
        settings: QueueSettings,
        *,
        profile: EngineProfile,
        spec: PoolSpec,
        clock: Clock,
        prefill: SimulatedFleet[PrefillPod],
        decode: SimulatedFleet[DecodePod],
        start_pass: Callable[[SimulatedPod[PrefillPod]], None],
        advance: Callable[[SimulatedPod[DecodePod]], None],
        shed: Callable[[SimulatedFlight], None],
        refuse: Callable[[SimulatedFlight], None],
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.view = RouterView(
            tpot_s=spec.slo.tpot_s,
            max_model_len=spec.max_model_len,
            pace=TruePace(profile),
            block_tokens=block_tokens,
            sees=_SEES.get(settings.spread, Sees.NOTHING),
            memories=tuple(PrefixIndex() for _ in range(settings.memories)),
            apart=settings.told_after_s is None,
        )
        self.view.hear_capacity(profile.kv_capacity_tokens)
        self.view.learn_prefill(profile)
        self.queue = RouterQueue(
            settings.order, expected=self.view.expected, tenant_of=settings.tenant_of
        )
        self._prefill = prefill
        self._decode = decode
        self._shed = shed
        self._refuse = refuse
        self._foresight: Foresight[QueuedFlight] = Foresight()
        self._refusable: dict[SimulatedFlight, QueuedFlight] = {}
        self._spread = PodSpread(settings.spread)
        self.legs = RouterLegs(
            view=self.view,
            spread=self._spread,
            profile=profile,
            clock=clock,
            decode=decode,
            start_pass=start_pass,
            advance=advance,
            told_after_s=settings.told_after_s,
        )
        self._finder = SimulatedPodFinder(
            settings, view=self.view, clock=clock, catch_up=self.legs.catch_up
        )
        self._looking = False
        self._spare_from_s = 0.0
        self._waits = Waits()

    def add(self, flight: SimulatedFlight) -> None:
        """Take a request in."""
        now_s = self.clock.now_s
        self._look_at_zero(now_s)
        first_token_s = self._waits.begin(
            flight, first_token_s=self.settings.first_token_s, now_s=now_s
        )
        waiter = self.queue.add(flight)
        # One whose pod was lost comes again, and has cost a prefill already.
        waiter.refuse_late &= flight.request.at_s == now_s
        if waiter.refuse_late:
            self._refusable[flight] = waiter
        if flight.slo_class is not None and flight.guaranteed:
            self.view.guaranteed.came(
                turn_of(waiter),
                pods=len(self._prefill.serving),
                now=now_s,
                wake_s=flight.given_s,
            )
        self.pump()
        if first_token_s is not None and flight.dispatched_s is None and flight.ending is None:
            by_s = self.view.begin_by_s(flight, first_token_s=first_token_s, now_s=self.clock.now_s)
            self.queue.wait_until(flight, by_s)

    def ended(self, flight: SimulatedFlight) -> None:
        """Learn from a request that has ended whether one that was set aside can be on time."""
        waiter = self._refusable.pop(flight, None)
        if waiter is not None:
            self._foresight.ended(waiter, first_token_s=flight.first_s, now=self.clock.now_s)

    def _refuse_late(self, now_s: float) -> None:
        """Refuse those that prefill pods will serve late, as far as that has proven itself."""
        classes = self.queue.classes
        if classes is None or not self._refusable or not self._prefill.serving:
            return
        for waiter in self._foresight.refused(classes.newly_late(), now=now_s):
            self._take(waiter.flight)
            self._refuse(waiter.flight)

    def hear(self, pace: TimedDecodePace | None, *, wake_s: float | None) -> None:
        """Go by what the operator tells: of decode replicas, and how long a wake takes."""
        self.view.hear(pace)
        self._waits.wake_s = wake_s

    def _look_at_zero(self, now_s: float) -> None:
        fleets = (self._prefill, self._decode)
        none_is_there = all(pod.leaving for fleet in fleets for pod in fleet.pods)
        serves = bool(self._decode.serving)
        if self._waits.at_zero(none_is_there=none_is_there, serves=serves, now_s=now_s):
            self.queue.woken(now_s)

    def held(self) -> list[SimulatedFlight]:
        """Return the waiting requests that decode pods held back for most of their wait."""
        return self._waits.mostly_held(self.queue, now_s=self.clock.now_s)

    def pump(self) -> None:
        """Send on every request that there is room for."""
        now_s = self.clock.now_s
        self._give_up(now_s)
        decode = self._decode.serving
        if not decode:
            return
        self._waits.hold(on=self._pumped(decode, now_s), now_s=now_s)
        while self.legs.join_next():
            self._waits.hold(on=self._pumped(decode, now_s), now_s=now_s)
        self._refuse_late(now_s)

    def _pumped(self, decode: list[SimulatedPod[DecodePod]], now_s: float) -> bool:
        """Send them on; whether decode pods are what the next one waits for."""
        if not len(self.queue):
            return False
        self.view.forget_gone()
        prefill = self.view.prefill_sides(self._prefill.serving)
        sides = self.view.decode_sides(decode)
        self.queue.reconsider(prefill, now_s)
        apart: Apart[QueuedFlight] = Apart()
        classes = self.queue.classes
        while len(self.queue):
            due = None if classes is None else classes.due(pods=max(1, len(prefill)), now=now_s)
            if classes is not None and due is not None:
                room = self._finder.room_for(due.waiter.tokens, prefill)
                if (prefill and not room) or not self._placed(
                    Next(due, late=False), room, sides, now_s
                ):
                    self._look_again()
                    return False
                classes.took(due)
                continue
            prospect = self._prospect(prefill, now_s)
            found = self.queue.next(prospect, now_s, apart_from=apart.waiters)
            if prefill and self._overflowed(found.excess, sides):
                continue
            if found.first is None:
                if self._filled(prefill, sides, now_s):
                    continue
                return False
            turn = found.first
            room = self._finder.room_for(turn.waiter.tokens, prefill)
            if prefill and not room:
                return False
            if turn.waiter.flight.request.blocks and self.view.sees is not Sees.NOTHING:
                # Since it was asked others may have been sent somewhere that begin alike.
                turn = turn_of(turn.waiter)
                found = replace(found, first=turn)
                if apart.takes(turn, prefill, room, now=now_s):
                    continue
            if not self._placed(found, room, sides, now_s):
                self._look_again()
                return True
        return False

    def _filled(self, prefill: list[PrefillSide], decode: list[DecodeSide], now_s: float) -> bool:
        """Send on best effort where no guaranteed request will need the time; nobody else waits."""
        classes = self.queue.classes
        if classes is None or not classes.spares:
            return False
        guaranteed, pace = self.view.guaranteed, self.view.pace
        need = guaranteed.need(now_s, pods=len(prefill))
        routers = 1 if pace is None else pace.routers
        for waiter in classes.spare():
            room = self._finder.room_for(waiter.tokens, prefill)
            if prefill and not room:
                continue
            turn = turn_of(waiter)
            room = need.leaves(turn, prefill, room, routers=routers, now=now_s)
            if room or not prefill:
                found, reserve = Next(turn, late=False), guaranteed.missing(now_s)
                if self._placed(found, room, decode, now_s, reserve=reserve):
                    return True
                break
        if now_s < self._spare_from_s:
            return False
        if prefill and self._sent_whole(self._finder.helped_spare(classes.spare(), decode)):
            return True
        self._spare_from_s = now_s + SPARE_LOOK_S
        self._look_again(SPARE_LOOK_S)
        return False

    def _placed(
        self,
        found: Next[QueuedFlight],
        room: list[PrefillSide],
        decode: list[DecodeSide],
        now_s: float,
        *,
        reserve: Load = NO_LOAD,
    ) -> bool:
        """Send the next one on while decode pods bear it; to one of `room` if any is given."""
        turn = found.first
        if turn is None:
            return False
        side, borne = self._finder.find(turn, room, decode, late=found.late, reserve=reserve)
        if not borne:
            return False
        self._serve(turn)
        if side is None:
            self.legs.send_whole(turn, None)
        else:
            chosen = self._spread.prefill(room, turn.waiter.flight)
            self.legs.send(turn, turn.decode_load, chosen or side)
        return True

    def _sent_whole(self, found: Whole | None) -> bool:
        """Send a request whole to the decode pod that was found to have slack for it."""
        if found is None:
            return False
        turn, side = found
        self._serve(turn)
        self.legs.send_whole(turn, side)
        return True

    def decode_ready(self) -> None:
        """A decode pod has come up."""
        self._look_at_zero(self.clock.now_s)
        self.legs.decode_ready()
        self.pump()

    def _give_up(self, now_s: float) -> None:
        """Shed the requests that waited as long as they may."""
        while (flight := self.queue.worn_out(now_s)) is not None:
            self._take(flight)
            self._shed(flight)

    def _serve(self, turn: Turn[QueuedFlight]) -> None:
        self.queue.serve(turn)
        self._waits.end(turn.waiter.flight, now_s=self.clock.now_s)

    def _take(self, flight: SimulatedFlight) -> None:
        self.queue.take(flight)
        self._waits.end(flight, now_s=self.clock.now_s)

    def _prospect(self, prefill: list[PrefillSide], now_s: float) -> Prospect:
        pace = self.view.pace
        overflow = bool(prefill) and self.settings.overflow and pace is not None
        return Prospect.of(prefill, now=now_s, helped=overflow)

    def _look_again(self, in_s: float = GATE_LOOK_S) -> None:
        """Streams end without anybody being told: look in a moment."""
        if not self._looking:
            self._looking = True
            self.clock.after(in_s, self._looked)

    def _looked(self) -> None:
        self._looking = False
        self.legs.catch_up()
        self.pump()

    def _overflowed(self, excess: Sequence[Turn[QueuedFlight]], decode: list[DecodeSide]) -> bool:
        """Send one of these whole to a decode pod that has slack for it, if there is any."""
        if self.view.pace is None or not excess or not self.settings.overflow:
            return False
        self.legs.catch_up()
        if self._sent_whole(self._finder.helped(excess, decode)):
            return True
        if any(side.whole for side in decode):
            # Live, the router hears of the first token that frees a pod for another prompt.
            self._look_again()
        return False
