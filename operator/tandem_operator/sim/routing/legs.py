"""The legs of requests that have left the queue: to a prefill pod, and on to a decode pod."""

from collections import deque
from collections.abc import Callable
from functools import partial

from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.fleet import SimulatedFleet
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.pod_sides import DecodeSide, PrefillSide
from tandem_operator.sim.routing.pod_spread import PodSpread
from tandem_operator.sim.routing.router_queue import QueuedFlight
from tandem_operator.sim.routing.router_view import RouterView
from tandem_routing.deadline_queue import Turn
from tandem_routing.outstanding import Load


class RouterLegs:
    """Brings requests to pods, and tells the router's view of it.

    Attributes:
        between: those that are prefilled and wait for any decode pod.
    """

    def __init__(
        self,
        *,
        view: RouterView,
        spread: PodSpread,
        profile: EngineProfile,
        clock: Clock,
        decode: SimulatedFleet[DecodePod],
        start_pass: Callable[[SimulatedPod[PrefillPod]], None],
        advance: Callable[[SimulatedPod[DecodePod]], None],
        told_after_s: float | None,
    ) -> None:
        self.between: list[SimulatedFlight] = []
        self._view = view
        self._spread = spread
        self._profile = profile
        self._clock = clock
        self._decode = decode
        self._start_pass = start_pass
        self._advance = advance
        self._told_after_s = told_after_s
        self._whole: deque[tuple[SimulatedFlight, DecodeSide | None]] = deque()

    def send(self, turn: Turn[QueuedFlight], load: Load, side: PrefillSide) -> None:
        """Send a prompt to a prefill pod."""
        flight, now_s, pod = turn.waiter.flight, self._clock.now_s, side.pod
        flight.dispatched_s = now_s
        self._view.sent(side, flight, turn.expected, load, now_s)
        pod.engine.enter(flight, now_s)
        if pod.engine.idle:
            self._start_pass(pod)

    def send_whole(self, turn: Turn[QueuedFlight], side: DecodeSide | None) -> None:
        """Send a request to the decode pod that has slack for all of it; `None`: to any."""
        flight, now_s = turn.waiter.flight, self._clock.now_s
        flight.dispatched_s = now_s
        flight.overflowed = True
        flight.compute_tokens = flight.request.prompt_tokens
        self._view.sent_whole(flight, turn.expected, turn.decode_load, side, now_s)
        self._whole.append((flight, side))

    def join_next(self) -> bool:
        """Have the next one that was sent whole reach its decode pod; False: there is none.

        Live, that is once the look at the queue is over.
        """
        if not self._whole:
            return False
        flight, side = self._whole.popleft()
        at = side or self._choose(self._decode.serving)
        now_s = self._clock.now_s
        self._view.joined(flight, at, now_s, overflow=side is not None)
        at.pod.engine.join(flight, now_s)
        return True

    def came_back(self, flights: list[SimulatedFlight]) -> None:
        """A prefill pod is done with these."""
        if self._told_after_s is not None:
            for flight in flights:
                tell = partial(self._view.tell_others, flight, self._view.side_of(flight))
                self._clock.after(self._told_after_s, tell)
        self._view.came_back(flights, self._clock.now_s)
        for flight in flights:
            self.hand_over(flight)

    def hand_over(self, flight: SimulatedFlight) -> None:
        """Bring a prefilled request to a decode pod; with none there, it waits."""
        pods = self._decode.serving
        if not pods:
            self.between.append(flight)
            return
        self.catch_up()
        flight.handover_s = self._profile.handover_s(flight.request.prompt_tokens)
        chosen = self._choose(pods)
        self._view.joined(flight, chosen, self._clock.now_s)
        chosen.pod.engine.join(flight, self._clock.now_s + flight.handover_s)

    def decode_ready(self) -> None:
        """A decode pod has come up: bring those to it that waited for any."""
        waited, self.between = self.between, []
        for flight in waited:
            self.hand_over(flight)

    def catch_up(self) -> None:
        """Bring all decode pods to the present."""
        for pod in self._decode.serving:
            self._advance(pod)

    def _choose(self, pods: list[SimulatedPod[DecodePod]]) -> DecodeSide:
        return self._spread.decode(settled(self._view.decode_sides(pods)))


def settled(decode: list[DecodeSide]) -> list[DecodeSide]:
    """The same, with note taken of the prompts that are computed by now."""
    for side in decode:
        if side.whole:
            side.settle()
    return decode
