"""A pool's router: who waits, who goes to which pod, and what goes to decode pods whole."""

from collections.abc import Callable
from math import inf

from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.clock import Clock, Stopwatch
from tandem_operator.sim.decode_pod import DecodePod
from tandem_operator.sim.fleet import Fleet
from tandem_operator.sim.flight import Flight
from tandem_operator.sim.outlook import REVISION, DecodeSide, Outlook, Pace, PrefillSide
from tandem_operator.sim.pods import E, Pod
from tandem_operator.sim.prefill_pod import PrefillPod
from tandem_operator.sim.profile import EngineProfile
from tandem_operator.sim.router_queue import (
    Candidate,
    Prospect,
    RouterQueue,
    RouterSettings,
    Spread,
    pick,
)
from tandem_routing.deadline_queue import Expected
from tandem_routing.overflow import Whole, slack_for, spare
from tandem_routing.pairing import Gate, pair
from tandem_routing.pod_choice import least_loaded

AFFINITY_SLACK_PASSES = 1.0
GATE_LOOK_S = 0.02


class Router:
    """Moves requests from the queue to prefill pods, and from these to decode pods.

    `start_pass` sets an idle prefill pod to work; `advance` brings a decode pod to the present;
    `shed` ends a request that waited too long.
    """

    def __init__(
        self,
        settings: RouterSettings,
        *,
        profile: EngineProfile,
        spec: PoolSpec,
        clock: Clock,
        prefill: Fleet[PrefillPod],
        decode: Fleet[DecodePod],
        start_pass: Callable[[Pod[PrefillPod]], None],
        advance: Callable[[Pod[DecodePod]], None],
        shed: Callable[[Flight], None],
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.clock = clock
        self.between: list[Flight] = []
        self.outlook = Outlook(profile, tpot_s=spec.slo.tpot_s, decode=profile)
        self.queue = RouterQueue(
            settings.order,
            service_s=self._service_s,
            prospect=self._prospect,
            elsewhere=settings.overflow,
        )
        self._prefill = prefill
        self._decode = decode
        self._start_pass = start_pass
        self._advance = advance
        self._shed = shed
        self._last: dict[str, int] = {}
        self._affine = settings.spread is Spread.PREFIX_AFFINE
        self._looking = False
        self._held = Stopwatch()

    def add(self, flight: Flight) -> None:
        """Take a request in."""
        flight.held_s = -self._held.total_s(self.clock.now_s)
        self.queue.add(flight)
        self.pump()
        first_token_s = self.settings.first_token_s
        if first_token_s is not None and flight.dispatched_s is None:
            by_s = self.outlook.begin_by_s(
                flight,
                Expected(service_s=self._service_s(flight), rest_s=self._rest_s()),
                first_token_s=first_token_s,
                now_s=self.clock.now_s,
            )
            self.queue.wait_until(flight, by_s)

    def held(self) -> list[Flight]:
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
        if self._decode.oldest:
            self._held.turn(on=self._pumped(now_s), now_s=now_s)

    def _pumped(self, now_s: float) -> bool:
        """Send them on; whether decode pods are what the next one waits for."""
        while len(self.queue):
            first, excess = self.queue.sort(now_s)
            if self.settings.overflow and excess and self._overflowed(excess):
                continue
            free = [] if first is None else self._with_room(first)
            if first is None or not free:
                return False
            pod = self._paired(first, free)
            if pod is None:
                self._look_again()
                return True
            self._take(first)
            self._send(first, pod)
        return False

    def came_back(self, pod: Pod[PrefillPod], flights: list[Flight]) -> None:
        """A prefill pod is done with these."""
        self.outlook.came_back(pod, flights, self.clock.now_s)
        for flight in flights:
            self.hand_over(flight)

    def hand_over(self, flight: Flight) -> None:
        """Bring a prefilled request to a decode pod; with none there, it waits."""
        pods = self._decode.serving
        if not pods:
            self.between.append(flight)
            return
        for pod in pods:
            self._advance(pod)
        flight.handover_s = self.profile.handover_s(flight.request.prompt_tokens)
        chosen = self._choose_decode(pods)
        self.outlook.joined(flight, self.outlook.decode_side(chosen), self.clock.now_s)
        chosen.engine.join(flight, self.clock.now_s + flight.handover_s)

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

    def _take(self, flight: Flight) -> None:
        self.queue.take(flight)
        flight.held_s += self._held.total_s(self.clock.now_s)

    def _with_room(self, flight: Flight) -> list[Pod[PrefillPod]]:
        return [
            pod
            for pod in self._prefill.serving
            if self.settings.has_room(
                requests=pod.engine.requests,
                tokens=pod.engine.outstanding_tokens,
                prompt_tokens=flight.request.prompt_tokens,
            )
        ]

    def _service_s(self, flight: Flight) -> float:
        cached = 0
        if self._affine and flight.request.blocks:
            pods = self._prefill.serving
            cached = max((pod.engine.cached_tokens(flight) for pod in pods), default=0)
        return self.profile.service_s(flight.request.prompt_tokens, cached)

    def _prospect(self, now_s: float) -> Prospect:
        pods = self._prefill.serving
        nobody_s = inf if self.settings.overflow else now_s
        free_s = (self.outlook.free_s(pod, now_s) for pod in pods)
        return Prospect(
            min(free_s, default=nobody_s), pods=max(1, len(pods)), rest_s=self._rest_s()
        )

    def _rest_s(self) -> float:
        return self.profile.handover_s(0) + self.outlook.first_token_s(self._decode.serving)

    def _paired(self, flight: Flight, free: list[Pod[PrefillPod]]) -> Pod[PrefillPod] | None:
        """The one of `free` to go to, while decode pods bear one more stream."""
        pace = self.outlook.pace() if self.settings.decode_gate else None
        side = self._pair(flight, free, pace)
        if side is None and pace is not None:
            # Streams have ended since a pod was last looked at: only then is that worth a look.
            for pod in self._decode.serving:
                self._advance(pod)
            side = self._pair(flight, free, pace)
        if side is None or self.settings.spread is Spread.LEAST_LOADED:
            return None if side is None else side.pod
        return self._choose_prefill(free, flight)

    def _pair(
        self, flight: Flight, free: list[Pod[PrefillPod]], pace: Pace | None
    ) -> PrefillSide | None:
        prefill = [self.outlook.prefill_side(pod) for pod in free]
        decode = self._decode_sides()
        if not decode:
            return None if self.settings.decode_gate else least_loaded(prefill)
        gate = Gate(
            pace,
            tpot_s=self.outlook.tpot_s,
            late=self.queue.is_hopeless(flight),
            now=self.clock.now_s,
        )
        load = self.outlook.load_of(flight)
        return pair(load, prefill, {REVISION: decode}, coming=self.outlook, gate=gate)

    def _choose_prefill(self, pods: list[Pod[PrefillPod]], flight: Flight) -> Pod[PrefillPod]:
        candidates = [
            Candidate(
                index=pod.index,
                load_tokens=pod.engine.outstanding_tokens,
                cached_tokens=pod.engine.cached_tokens(flight) if self._affine else 0,
            )
            for pod in pods
        ]
        return self._picked(pods, candidates, "prefill")

    def _choose_decode(self, pods: list[Pod[DecodePod]]) -> Pod[DecodePod]:
        # A pod that computes a prompt makes no first token until that is done.
        pods = [pod for pod in pods if not pod.engine.computing] or pods
        if self.settings.spread is Spread.LEAST_LOADED:
            chosen = least_loaded(self.outlook.decode_side(pod) for pod in pods)
            if chosen is not None:
                return chosen.pod
        # Requests decide: each takes a place in the batch whatever its length.
        capacity = self.profile.kv_capacity_tokens
        candidates = [
            Candidate(pod.index, pod.engine.requests * capacity + pod.engine.kv_tokens)
            for pod in pods
        ]
        return self._picked(pods, candidates, "decode")

    def _picked(self, pods: list[Pod[E]], candidates: list[Candidate], role: str) -> Pod[E]:
        chosen = pick(
            candidates,
            self.settings.spread,
            last=self._last.get(role, -1),
            slack_tokens=AFFINITY_SLACK_PASSES * self.profile.max_num_batched_tokens,
        )
        self._last[role] = chosen.index
        return next(pod for pod in pods if pod.index == chosen.index)

    def _send(self, flight: Flight, pod: Pod[PrefillPod]) -> None:
        now_s = self.clock.now_s
        flight.dispatched_s = now_s
        self.outlook.sent(pod, flight, self._service_s(flight), now_s)
        pod.engine.enter(flight, now_s)
        if pod.engine.idle:
            self._start_pass(pod)

    def _decode_sides(self) -> list[DecodeSide]:
        sides = [self.outlook.decode_side(pod) for pod in self._decode.serving]
        for side in sides:
            if side.whole:
                side.settle()
        return sides

    def _look_again(self) -> None:
        """Streams end without anybody being told: look in a moment."""
        if not self._looking:
            self._looking = True
            self.clock.after(GATE_LOOK_S, self._looked)

    def _looked(self) -> None:
        self._looking = False
        for pod in self._decode.serving:
            self._advance(pod)
        self.pump()

    def _overflowed(self, excess: list[Flight]) -> bool:
        """Send one of these whole to a decode pod that keeps TPOT for all inside, if there is one.

        Only where it would be on time: the prompts that the pod computes already come first.
        """
        pace = self.outlook.pace()
        if pace is None:
            return False
        for pod in self._decode.serving:
            self._advance(pod)
        now_s, tpot_s = self.clock.now_s, self.outlook.tpot_s
        sides = spare(self._decode_sides(), pace, tpot_s=tpot_s)
        if not sides:
            return False
        output_tokens = self.outlook.output_tokens
        for flight in excess:
            prompt = flight.request.prompt_tokens
            whole = Whole(
                prompt_tokens=prompt,
                output_tokens=output_tokens,
                compute_s=self.profile.service_s(prompt),
                deadline_s=flight.deadline_s,
            )
            side = slack_for(whole, sides, pace, now=now_s, tpot_s=tpot_s)
            if side is not None:
                self._send_whole(flight, side, whole.compute_s)
                return True
        return False

    def _send_whole(self, flight: Flight, side: DecodeSide, service_s: float) -> None:
        now_s = self.clock.now_s
        self._take(flight)
        flight.dispatched_s = now_s
        flight.overflowed = True
        flight.compute_tokens = flight.request.prompt_tokens
        flight.service_s = service_s
        self.outlook.computes(flight, side, now_s)
        side.pod.engine.join(flight, now_s)
