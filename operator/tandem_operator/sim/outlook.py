"""What a router can reckon from what it sent where: the data that the routing policy asks for.

It knows a prompt's length and the engines' prefill speed. How many tokens a request will make it
does not know: it goes by those that ended well.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tandem_operator.sim.decode_pod import DecodePod
from tandem_operator.sim.flight import Flight
from tandem_operator.sim.pods import Pod
from tandem_operator.sim.prefill_pod import PrefillPod
from tandem_operator.sim.profile import EngineProfile
from tandem_routing.deadline_queue import Expected
from tandem_routing.deadlines import Stage, begin_by_s, needed_s, to_first_token_s
from tandem_routing.estimates import MOST_MOVE, Mean
from tandem_routing.outstanding import NO_LOAD, Load, Outstanding

FIRST_OUTPUT_TOKENS = 128.0
REVISION = ""
# A newcomer waits for the step under way, half of one on average, and then for its own.
STEPS_TO_FIRST = 1.5


class DecodeSpeed(Protocol):
    """What is known of a decode replica: an engine's profile, or what the operator tells."""

    @property
    def kv_capacity_tokens(self) -> float | None:
        """Tokens that its cache holds; `None`: not known."""

    @property
    def max_num_seqs(self) -> int:
        """Most streams in its batch."""

    def step_s(self, batch: int, kv_tokens: float, /) -> float:
        """Seconds of a step with so many streams that hold so many tokens."""


@dataclass(frozen=True, slots=True)
class Pace:
    """A decode replica's speed as the routing policy asks for it."""

    speed: DecodeSpeed
    kv_capacity_tokens: float | None
    max_num_seqs: int
    routers: int = 1
    overflow: bool = True

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Seconds of a step; a profile knows whole batches alone."""
        return self.speed.step_s(max(1, round(streams)), kv_tokens)


class PrefillSide(Outstanding):
    """What a router has outstanding at one prefill pod; all pods are of one revision."""

    __slots__ = ("pod",)
    revision = REVISION

    def __init__(self, pod: Pod[PrefillPod]) -> None:
        super().__init__(pod.name)
        self.pod = pod


class DecodeSide(Outstanding):
    """What a router has outstanding at one decode pod; `whole`: who computes a prompt there."""

    __slots__ = ("pod", "whole")

    def __init__(self, pod: Pod[DecodePod]) -> None:
        super().__init__(pod.name)
        self.pod = pod
        self.whole: list[Flight] = []

    def settle(self) -> None:
        """Take note of the prompts that are computed by now."""
        for flight in [each for each in self.whole if each.first_s is not None]:
            self.whole.remove(flight)
            self.stalls.end()


@dataclass(slots=True)
class Outlook:
    """Expectations of one pool; pods are known by their index.

    Attributes:
        decode: how fast decode replicas are; `None` while nobody told.
        coming: what was let in and is at no decode pod yet.
    """

    profile: EngineProfile
    tpot_s: float
    decode: DecodeSpeed | None
    coming: Load = NO_LOAD
    _output_tokens: Mean = field(default_factory=lambda: Mean(most_move=MOST_MOVE))
    _prefill_leg_s: Mean = field(default_factory=lambda: Mean(most_move=MOST_MOVE))
    _pace: Pace | None = None
    _prefill: dict[int, PrefillSide] = field(default_factory=dict)
    _decode: dict[int, DecodeSide] = field(default_factory=dict)
    _at: dict[Flight, DecodeSide] = field(default_factory=dict)
    _work: dict[Flight, Load] = field(default_factory=dict)

    @property
    def output_tokens(self) -> int:
        """Tokens that a request is expected to make."""
        told = getattr(self.decode, "output_tokens", None)
        return round(self._output_tokens.value or told or FIRST_OUTPUT_TOKENS)

    def pace(self) -> Pace | None:
        """How fast decode replicas are, as the policy asks for it."""
        speed = self.decode
        if speed is None:
            return None
        if self._pace is None or self._pace.speed is not speed:
            self._pace = Pace(speed, speed.kv_capacity_tokens, speed.max_num_seqs)
        return self._pace

    def to(self, revision: str) -> Load:
        """What decode pods may get that is at none yet."""
        return self.coming

    def load_of(self, flight: Flight) -> Load:
        """What a request will be to a decode pod."""
        output_tokens = self.output_tokens
        tokens = flight.request.prompt_tokens + output_tokens
        return Load(tokens=tokens, output_tokens=output_tokens)

    def prefill_side(self, pod: Pod[PrefillPod]) -> PrefillSide:
        """What the router has outstanding at a prefill pod."""
        found = self._prefill.get(pod.index)
        if found is None:
            found = self._prefill[pod.index] = PrefillSide(pod)
        return found

    def decode_side(self, pod: Pod[DecodePod]) -> DecodeSide:
        """What the router has outstanding at a decode pod."""
        found = self._decode.get(pod.index)
        if found is None:
            found = self._decode[pod.index] = DecodeSide(pod)
        return found

    def sent(self, pod: Pod[PrefillPod], flight: Flight, service_s: float, now_s: float) -> None:
        """A prompt went to a prefill pod."""
        side = self.prefill_side(pod)
        if side.requests:
            service_s = max(0.0, service_s - self.profile.work_s(0))
        work = self._work[flight] = Load(flight.request.prompt_tokens, service_s)
        side.enter(work, now_s)
        flight.load = self.load_of(flight)
        self.coming += flight.load

    def came_back(self, pod: Pod[PrefillPod], flights: Iterable[Flight], now_s: float) -> None:
        """A prefill pod is done with some: what is left there begins now."""
        side = self.prefill_side(pod)
        for flight in flights:
            side.leave(self._work.pop(flight), now_s)
            if flight.dispatched_s is not None:
                self._prefill_leg_s.add(now_s - flight.dispatched_s)

    def free_s(self, pod: Pod[PrefillPod], now_s: float) -> float:
        """When a prefill pod will be done with what it has."""
        return self.prefill_side(pod).free_s(now_s)

    def joined(self, flight: Flight, side: DecodeSide, now_s: float) -> None:
        """A request is at a decode pod."""
        self.coming -= flight.load
        self._at[flight] = side
        side.enter(flight.load, now_s)

    def computes(self, flight: Flight, side: DecodeSide, now_s: float) -> None:
        """A decode pod was sent a whole request."""
        flight.load = self.load_of(flight)
        self.coming += flight.load
        side.stalls.begin(flight.service_s, now_s)
        side.whole.append(flight)
        self.joined(flight, side, now_s)

    def left(self, flight: Flight, now_s: float) -> None:
        """A request is nowhere any more, or begins anew."""
        side = self._at.pop(flight, None)
        self._work.pop(flight, None)
        if side is None:
            self.coming -= flight.load
        else:
            side.leave(flight.load, now_s)
            if flight in side.whole:
                side.whole.remove(flight)
                side.stalls.end()
        flight.load = NO_LOAD

    def begin_by_s(
        self, flight: Flight, expected: Expected, *, first_token_s: float, now_s: float
    ) -> float:
        """Until when a request may wait for a prefill pod: later it would be sent in vain."""
        needed = needed_s(
            to_first_token_s(
                expected, stage=Stage.PREFILL, prefill_leg_s=self._prefill_leg_s.value
            ),
            whole_s=first_token_s,
        )
        return begin_by_s(flight.request.at_s + first_token_s, needed=needed, now=now_s)

    def ended_well(self, output_tokens: int) -> None:
        """A good request made so many tokens."""
        self._output_tokens.add(output_tokens)

    def first_token_s(self, pods: Iterable[Pod[DecodePod]]) -> float:
        """From a hand-over to the first token, at the idlest decode pod as last seen."""
        steps = (
            self.profile.step_s(max(1, pod.engine.requests), pod.engine.kv_tokens) for pod in pods
        )
        return STEPS_TO_FIRST * min(steps, default=0.0)
