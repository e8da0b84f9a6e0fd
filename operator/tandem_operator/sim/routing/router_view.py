"""What the simulated router sent where and what it learned: the data that the policy asks for.

It learns as the live router does, from what it sees: nobody tells it how fast engines are, how much
of a prompt they have cached, or how many tokens a request will make. A simulation begins with pods
that are ready, so with a router that has served a few prompts alone already.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tandem_operator.core.learn.least_squares import Triple
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_routing.deadline_queue import Expected
from tandem_routing.history import BUCKET_EDGES_TOKENS
from tandem_routing.learned import Learned
from tandem_routing.outstanding import NO_LOAD, Load, Outstanding
from tandem_routing.time_shares import Stage, begin_by_s

REVISION = ""
LEARNED_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class ToldPace:
    """How fast a decode replica is, as the operator told the router."""

    step_s: Triple
    kv_capacity_tokens: float | None
    max_num_seqs: int
    output_tokens: float | None
    routers: int = 1
    overflow: bool = True

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Seconds of a step with so many streams that hold so many tokens."""
        least_s, per_stream_s, per_token_s = self.step_s
        return least_s + per_stream_s * streams + per_token_s * kv_tokens


@dataclass(frozen=True, slots=True)
class TruePace:
    """How fast a decode replica is, as long as nobody has told the router anything."""

    profile: EngineProfile
    output_tokens: None = None
    routers: int = 1
    overflow: bool = True

    @property
    def kv_capacity_tokens(self) -> float:
        """Tokens that its cache holds."""
        return self.profile.kv_capacity_tokens

    @property
    def max_num_seqs(self) -> int:
        """Most streams in its batch."""
        return self.profile.max_num_seqs

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Seconds of a step; a profile knows whole batches alone."""
        return self.profile.step_s(max(1, round(streams)), kv_tokens)


class PrefillSide(Outstanding):
    """What the router has outstanding at one prefill pod; all pods are of one revision."""

    __slots__ = ("pod",)
    revision = REVISION

    def __init__(self, pod: SimulatedPod[PrefillPod]) -> None:
        super().__init__(pod.name)
        self.pod = pod


class DecodeSide(Outstanding):
    """What the router has outstanding at one decode pod; `whole`: who computes a prompt there."""

    __slots__ = ("pod", "whole")

    def __init__(self, pod: SimulatedPod[DecodePod]) -> None:
        super().__init__(pod.name)
        self.pod = pod
        self.whole: list[SimulatedFlight] = []

    def settle(self) -> None:
        """Take note of the prompts that are computed by now."""
        for flight in [each for each in self.whole if each.first_s is not None]:
            self.whole.remove(flight)
            self.stalls.end()


@dataclass(slots=True)
class _PrefillLeg:
    """A request at a prefill pod; `entries`: those of the pod then, where it had none but this."""

    side: PrefillSide
    load: Load
    sent_s: float
    entries: int | None


@dataclass(slots=True)
class _DecodeLeg:
    """A request at a decode pod since `began_s`; `overflow`: the pod had slack for all of it."""

    side: DecodeSide
    began_s: float
    overflow: bool


@dataclass(slots=True)
class RouterView:
    """One pool as its router sees it; pods are known by their index.

    Attributes:
        pace: how fast decode replicas are; `None`: not known.
        coming: what was let in and is at no decode pod yet.
    """

    tpot_s: float
    max_model_len: int
    pace: ToldPace | TruePace | None
    coming: Load = NO_LOAD
    learned: Learned = field(default_factory=Learned)
    _prefill: dict[int, PrefillSide] = field(default_factory=dict)
    _decode: dict[int, DecodeSide] = field(default_factory=dict)
    _prefilling: dict[SimulatedFlight, _PrefillLeg] = field(default_factory=dict)
    _decoding: dict[SimulatedFlight, _DecodeLeg] = field(default_factory=dict)

    @property
    def output_tokens(self) -> int:
        """Tokens that a request is expected to make."""
        stated_tokens = None if self.pace is None else self.pace.output_tokens
        return round(
            min(self.max_model_len, self.learned.answer_tokens(stated_tokens=stated_tokens))
        )

    def hear(self, pace: TimedDecodePace | None) -> None:
        """Go by what the operator tells of decode replicas."""
        self.pace = None
        if pace is not None:
            self.pace = ToldPace(
                pace.steps, pace.kv_capacity_tokens, pace.max_num_seqs, pace.output_tokens
            )

    def to(self, revision: str) -> Load:
        """What decode pods may get that is at none yet."""
        return self.coming

    def expected(self, flight: SimulatedFlight) -> Expected:
        """What to expect of a request, as far as it is known."""
        return self.learned.expected(flight.request.prompt_tokens, output_tokens=self.output_tokens)

    def prefill_sides(self, pods: Iterable[SimulatedPod[PrefillPod]]) -> list[PrefillSide]:
        """What the router has outstanding at each of these."""
        known = self._prefill
        return [
            known.get(pod.index) or known.setdefault(pod.index, PrefillSide(pod)) for pod in pods
        ]

    def decode_sides(self, pods: Iterable[SimulatedPod[DecodePod]]) -> list[DecodeSide]:
        """What the router has outstanding at each of these."""
        known = self._decode
        return [
            known.get(pod.index) or known.setdefault(pod.index, DecodeSide(pod)) for pod in pods
        ]

    def sent(
        self,
        side: PrefillSide,
        flight: SimulatedFlight,
        expected: Expected,
        decode_load: Load,
        now_s: float,
    ) -> None:
        """A prompt went to a prefill pod; `decode_load` is what it will be to a decode pod."""
        alone = not side.requests
        load = Load(flight.request.prompt_tokens, expected.work_s(alone=alone))
        side.enter(load, now_s)
        self._prefilling[flight] = _PrefillLeg(side, load, now_s, side.entries if alone else None)
        self._let_in(flight, decode_load)

    def came_back(self, flights: Iterable[SimulatedFlight], now_s: float) -> None:
        """A prefill pod is done with some: what is left there begins now."""
        for flight in flights:
            leg = self._prefilling.pop(flight)
            side, prompt, cached = leg.side, flight.request.prompt_tokens, flight.cached_tokens
            side.leave(leg.load, now_s)
            learned, leg_s = self.learned, now_s - leg.sent_s
            learned.prefilled(prompt, cached_tokens=cached)
            flight.service_s = learned.service_s(
                REVISION, prompt_tokens=prompt, cached_tokens=cached
            )
            if leg.entries == side.entries:
                learned.prefilled_alone(
                    REVISION, prompt_tokens=prompt, cached_tokens=cached, leg_s=leg_s
                )
            learned.prefill_leg_s.add(leg_s)

    def sent_whole(
        self,
        flight: SimulatedFlight,
        expected: Expected,
        load: Load,
        side: DecodeSide | None,
        now_s: float,
    ) -> None:
        """A request goes to a decode pod whole; `side`: the one that has slack for that."""
        if side is not None:
            side.stalls.begin(expected.whole_s, now_s)
            side.whole.append(flight)
        self._let_in(flight, load)

    def joined(
        self, flight: SimulatedFlight, side: DecodeSide, now_s: float, *, overflow: bool = False
    ) -> None:
        """A request is at a decode pod."""
        self.coming -= flight.load
        self._decoding[flight] = _DecodeLeg(side, now_s, overflow)
        output_tokens = self.output_tokens
        if flight.load.output_tokens != output_tokens:
            tokens = flight.request.prompt_tokens + output_tokens
            flight.load = Load(tokens=tokens, output_tokens=output_tokens)
        side.enter(flight.load, now_s)

    def left(self, flight: SimulatedFlight, now_s: float) -> None:
        """A request is nowhere any more, or begins anew."""
        self._prefilling.pop(flight, None)
        leg = self._decoding.pop(flight, None)
        if leg is None:
            self.coming -= flight.load
        else:
            self._served(flight, leg)
            side = leg.side
            side.leave(flight.load, now_s)
            if flight in side.whole:
                side.whole.remove(flight)
                side.stalls.end()
        flight.load = NO_LOAD

    def begin_by_s(self, flight: SimulatedFlight, *, first_token_s: float, now_s: float) -> float:
        """Until when a request may wait for a prefill pod: later it would be sent in vain."""
        needed = self.learned.needed_s(
            self.expected(flight), stage=Stage.PREFILL, first_token_s=first_token_s
        )
        return begin_by_s(flight.request.at_s + first_token_s, needed=needed, now=now_s)

    def learn_prefill(self, profile: EngineProfile) -> None:
        """Take the times of prompts of all lengths, each alone on its pod."""
        for prompt in LEARNED_ROUNDS * BUCKET_EDGES_TOKENS:
            self.learned.prefilled_alone(
                REVISION,
                prompt_tokens=prompt,
                cached_tokens=0,
                leg_s=profile.service_s(prompt),
            )

    def _let_in(self, flight: SimulatedFlight, load: Load) -> None:
        flight.load = load
        self.coming += load

    def _served(self, flight: SimulatedFlight, leg: _DecodeLeg) -> None:
        """Learn from a decode leg that made a first token."""
        learned, whole = self.learned, flight.prefilled_s is None
        if whole:
            flight.service_s = learned.service_s(
                REVISION, prompt_tokens=flight.request.prompt_tokens, cached_tokens=None
            )
        if flight.first_s is None:
            return
        first_s = flight.first_s - leg.began_s
        if not whole:
            learned.decode_first_s.add(first_s)
        elif leg.overflow:
            learned.overflowed(REVISION, first_s=first_s, service_s=flight.service_s)
