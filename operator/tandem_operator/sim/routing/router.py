"""A pool's router: who waits, who goes to which pod, and what goes to decode pods whole."""

from collections import deque
from collections.abc import Callable, Sequence

from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.clock import BusyTime, Clock
from tandem_operator.sim.cluster.fleet import SimulatedFleet
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.router_queue import (
    Candidate,
    QueuedFlight,
    QueueSettings,
    RouterQueue,
    Spread,
    pick,
)
from tandem_operator.sim.routing.router_view import (
    REVISION,
    DecodeSide,
    PrefillSide,
    RouterView,
    TruePace,
)
from tandem_routing.deadline_queue import Next, Prospect, Turn
from tandem_routing.outstanding import Load
from tandem_routing.overflow import OverflowPace, helped, spare
from tandem_routing.pairing import Gate, bearing, pair
from tandem_routing.pod_choice import least_loaded

AFFINITY_SLACK_PASSES = 1.0
GATE_LOOK_S = 0.02


class SimulatedRouter:
    """Moves requests from the queue to prefill pods, and from these to decode pods.

    `start_pass` sets an idle prefill pod to work; `advance` brings a decode pod to the present;
    `shed` ends a request that waited too long.
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
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.clock = clock
        self.between: list[SimulatedFlight] = []
        self.view = RouterView(
            tpot_s=spec.slo.tpot_s, max_model_len=spec.max_model_len, pace=TruePace(profile)
        )
        self.view.learn_prefill(profile)
        self.queue = RouterQueue(settings.order, expected=self.view.expected)
        self._prefill = prefill
        self._decode = decode
        self._start_pass = start_pass
        self._advance = advance
        self._shed = shed
        self._last: dict[str, int] = {}
        self._affine = settings.spread is Spread.PREFIX_AFFINE
        self._room = settings.room()
        self._looking = False
        self._held = BusyTime()
        self._whole: deque[tuple[SimulatedFlight, DecodeSide | None]] = deque()

    def add(self, flight: SimulatedFlight) -> None:
        """Take a request in."""
        flight.held_s = -self._held.total_s(self.clock.now_s)
        self.queue.add(flight)
        self.pump()
        first_token_s = self.settings.first_token_s
        if first_token_s is not None and flight.dispatched_s is None:
            by_s = self.view.begin_by_s(flight, first_token_s=first_token_s, now_s=self.clock.now_s)
            self.queue.wait_until(flight, by_s)

    def held(self) -> list[SimulatedFlight]:
        """Those who wait and whom decode pods held back for most of their wait."""
        now_s = self.clock.now_s
        held_s = self._held.total_s(now_s)
        return [
            flight
            for flight in self.queue
            if held_s + flight.held_s > 0.5 * (now_s - flight.request.at_s)
        ]

    def pump(self) -> None:
        """Send on every request that there is room for."""
        now_s = self.clock.now_s
        self._give_up(now_s)
        decode = self._decode.serving
        if not decode:
            return
        self._held.turn(on=self._pumped(decode, now_s), now_s=now_s)
        while self._whole:
            # Live, a request reaches its decode pod once the look at the queue is over.
            self._join_whole(*self._whole.popleft())
            self._held.turn(on=self._pumped(decode, now_s), now_s=now_s)

    def _pumped(self, decode: list[SimulatedPod[DecodePod]], now_s: float) -> bool:
        """Send them on; whether decode pods are what the next one waits for."""
        if not len(self.queue):
            return False
        prefill = self.view.prefill_sides(self._prefill.serving)
        sides = self.view.decode_sides(decode)
        self.queue.reconsider(prefill, now_s)
        while len(self.queue):
            found = self.queue.next(self._prospect(prefill, now_s), now_s)
            if prefill and self._overflowed(found.excess, sides, now_s):
                continue
            if found.first is None:
                return False
            room = prefill
            if self._room is not None:
                room = self._room.at(prefill, prompt_tokens=found.first.waiter.tokens)
            if prefill and not room:
                return False
            if not self._placed(found, room, sides, now_s):
                self._look_again()
                return True
        return False

    def _placed(
        self,
        found: Next[QueuedFlight],
        room: list[PrefillSide],
        decode: list[DecodeSide],
        now_s: float,
    ) -> bool:
        """Send the next one on while decode pods bear it; to one of `room` if any is given."""
        turn = found.first
        if turn is None:
            return False
        load = turn.decode_load
        side, borne = self._chosen(load, room, decode, late=found.late)
        if not borne and self.settings.decode_gate:
            # Streams have ended since a pod was last looked at: only then is that worth a look.
            self._catch_up()
            side, borne = self._chosen(load, room, decode, late=found.late)
        if not borne:
            return False
        self._take(turn.waiter.flight)
        if side is None:
            self._send_whole(turn, load, None)
        elif self.settings.spread is Spread.LEAST_LOADED:
            self._send(turn, load, side)
        else:
            self._send(turn, load, self._choose_prefill(room, turn.waiter.flight))
        return True

    def _chosen(
        self,
        load: Load,
        room: list[PrefillSide],
        decode: list[DecodeSide],
        *,
        late: bool,
    ) -> tuple[PrefillSide | None, bool]:
        """The one of `room` to go to, if any is given, and whether decode bears the request."""
        gate = Gate(
            self.view.pace if self.settings.decode_gate else None,
            tpot_s=self.view.tpot_s,
            late=late,
            now=self.clock.now_s,
        )
        pods = {REVISION: _settled(decode)}
        coming = self.view
        if not room:
            return None, bool(bearing(load, pods, coming=coming, gate=gate))
        side = pair(load, room, pods, coming=coming, gate=gate)
        return side, side is not None

    def came_back(self, flights: list[SimulatedFlight]) -> None:
        """A prefill pod is done with these."""
        self.view.came_back(flights, self.clock.now_s)
        for flight in flights:
            self.hand_over(flight)

    def hand_over(self, flight: SimulatedFlight) -> None:
        """Bring a prefilled request to a decode pod; with none there, it waits."""
        pods = self._decode.serving
        if not pods:
            self.between.append(flight)
            return
        for pod in pods:
            self._advance(pod)
        flight.handover_s = self.profile.handover_s(flight.request.prompt_tokens)
        chosen = self._choose_decode(pods)
        self.view.joined(flight, chosen, self.clock.now_s)
        chosen.pod.engine.join(flight, self.clock.now_s + flight.handover_s)

    def decode_ready(self) -> None:
        """A decode pod has come up."""
        waited, self.between = self.between, []
        for flight in waited:
            self.hand_over(flight)
        self.pump()

    def _give_up(self, now_s: float) -> None:
        """Shed those who waited as long as they may."""
        while (flight := self.queue.worn_out(now_s)) is not None:
            self._take(flight)
            self._shed(flight)

    def _take(self, flight: SimulatedFlight) -> None:
        self.queue.take(flight)
        flight.held_s += self._held.total_s(self.clock.now_s)

    def _prospect(self, prefill: list[PrefillSide], now_s: float) -> Prospect:
        pace = self.view.pace
        overflow = bool(prefill) and self.settings.overflow and pace is not None
        return Prospect.of(prefill, now=now_s, helped=overflow)

    def _choose_prefill(self, room: list[PrefillSide], flight: SimulatedFlight) -> PrefillSide:
        candidates = [
            Candidate(
                index=side.pod.index,
                load_tokens=side.tokens,
                cached_tokens=side.pod.engine.cached_tokens(flight) if self._affine else 0,
            )
            for side in room
        ]
        index = self._picked(candidates, "prefill")
        return next(side for side in room if side.pod.index == index)

    def _choose_decode(self, pods: list[SimulatedPod[DecodePod]]) -> DecodeSide:
        sides = _settled(self.view.decode_sides(pods))
        # A pod that computes a prompt makes no first token until that is done.
        sides = [side for side in sides if not side.stalls.computing] or sides
        if self.settings.spread is Spread.LEAST_LOADED:
            chosen = least_loaded(sides)
            if chosen is not None:
                return chosen
        # Requests decide: each takes a place in the batch whatever its length.
        capacity = self.profile.kv_capacity_tokens
        candidates = [
            Candidate(side.pod.index, side.requests * capacity + side.tokens) for side in sides
        ]
        index = self._picked(candidates, "decode")
        return next(side for side in sides if side.pod.index == index)

    def _picked(self, candidates: list[Candidate], role: str) -> int:
        chosen = pick(
            candidates,
            self.settings.spread,
            last=self._last.get(role, -1),
            slack_tokens=AFFINITY_SLACK_PASSES * self.profile.max_num_batched_tokens,
        )
        self._last[role] = chosen.index
        return chosen.index

    def _send(self, turn: Turn[QueuedFlight], load: Load, side: PrefillSide) -> None:
        flight, now_s, pod = turn.waiter.flight, self.clock.now_s, side.pod
        flight.dispatched_s = now_s
        self.view.sent(side, flight, turn.expected, load, now_s)
        pod.engine.enter(flight, now_s)
        if pod.engine.idle:
            self._start_pass(pod)

    def _send_whole(self, turn: Turn[QueuedFlight], load: Load, side: DecodeSide | None) -> None:
        """Send a request to the decode pod that has slack for all of it; `None`: to any."""
        flight, now_s = turn.waiter.flight, self.clock.now_s
        flight.dispatched_s = now_s
        flight.overflowed = True
        flight.compute_tokens = flight.request.prompt_tokens
        self.view.sent_whole(flight, turn.expected, load, side, now_s)
        self._whole.append((flight, side))

    def _join_whole(self, flight: SimulatedFlight, side: DecodeSide | None) -> None:
        at = side or self._choose_decode(self._decode.serving)
        now_s = self.clock.now_s
        self.view.joined(flight, at, now_s, overflow=side is not None)
        at.pod.engine.join(flight, now_s)

    def _look_again(self) -> None:
        """Streams end without anybody being told: look in a moment."""
        if not self._looking:
            self._looking = True
            self.clock.after(GATE_LOOK_S, self._looked)

    def _looked(self) -> None:
        self._looking = False
        self._catch_up()
        self.pump()

    def _catch_up(self) -> None:
        for pod in self._decode.serving:
            self._advance(pod)

    def _overflowed(
        self, excess: Sequence[Turn[QueuedFlight]], decode: list[DecodeSide], now_s: float
    ) -> bool:
        """Send one of these whole to a decode pod that has slack for it, if there is any."""
        pace = self.view.pace
        if pace is None or not excess or not self.settings.overflow:
            return False
        self._catch_up()
        if self._sent_whole_to_spare(excess, pace, decode, now_s):
            return True
        if any(side.whole for side in decode):
            # Live, the router hears of the first token that frees a pod for another prompt.
            self._look_again()
        return False

    def _sent_whole_to_spare(
        self,
        excess: Sequence[Turn[QueuedFlight]],
        pace: OverflowPace,
        decode: list[DecodeSide],
        now_s: float,
    ) -> bool:
        tpot_s = self.view.tpot_s
        sides = spare(_settled(decode), pace, now=now_s, tpot_s=tpot_s)
        found = helped(excess, sides, pace, now=now_s, tpot_s=tpot_s) if sides else None
        if found is None:
            return False
        turn, side = found
        self._take(turn.waiter.flight)
        self._send_whole(turn, turn.decode_load, side)
        return True


def _settled(decode: list[DecodeSide]) -> list[DecodeSide]:
    for side in decode:
        if side.whole:
            side.settle()
    return decode
