"""What the simulated router sent where and what it learned: the data that the policy asks for.

It learns as the live router does, from what it sees: nobody tells it how fast engines are, how much
of a prompt they have cached, or how many tokens a request will make. A simulation begins with pods
that are ready, so with a router that has served a few prompts alone already.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.decode_pace import ToldPace, TruePace
from tandem_operator.sim.routing.pod_sides import REVISION, DecodeSide, PrefillSide
from tandem_operator.sim.traces.trace import BLOCK_TOKENS
from tandem_routing.best_effort import Guaranteed
from tandem_routing.deadline_queue import Expected
from tandem_routing.history import BUCKET_EDGES_TOKENS
from tandem_routing.learned import Learned
from tandem_routing.outstanding import NO_LOAD, Load
from tandem_routing.prefix_index import NO_PREFIX, Prefix, PrefixIndex
from tandem_routing.time_shares import Stage, begin_by_s

LEARNED_ROUNDS = 10


class Sees(Enum):
    """What a router knows of the caches of prefill pods."""

    NOTHING = auto()
    HISTORY = auto()
    ALL = auto()


@dataclass(slots=True)
class _PrefillLeg:
    """A request at a prefill pod; `entries`: those of the pod then, where it had none but this."""

    side: PrefillSide
    load: Load
    sent_s: float
    entries: int | None
    prefix: Prefix
    held_tokens: int


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
        block_tokens: of the prefix blocks of the traffic.
        sees: what is known of caches.
        coming: what was let in and is at no decode pod yet.
        memories: what prefill pods were sent, by the router that sent it.
        apart: whether each knows its own alone, and so a part of what a cache holds.
        guaranteed: what guaranteed requests needed lately, where there are classes.
    """

    tpot_s: float
    max_model_len: int
    pace: ToldPace | TruePace | None
    block_tokens: int = BLOCK_TOKENS
    sees: Sees = Sees.HISTORY
    coming: Load = NO_LOAD
    memories: tuple[PrefixIndex[PrefillSide], ...] = field(default_factory=lambda: (PrefixIndex(),))
    learned: Learned = field(default_factory=Learned)
    apart: bool = True
    guaranteed: Guaranteed = field(default_factory=Guaranteed)
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
            if pace.kv_capacity_tokens is not None:
                self.hear_capacity(pace.kv_capacity_tokens)

    def hear_capacity(self, tokens: float) -> None:
        """Take a prefill pod to hold so many tokens, of all routers."""
        for memory in self.memories:
            memory.capacity_tokens = tokens / (len(self.memories) if self.apart else 1)

    def memory_of(self, flight: SimulatedFlight) -> PrefixIndex[PrefillSide]:
        """What the router of a request remembers: clients take routers in turn."""
        return self.memories[flight.number % len(self.memories)]

    def to(self, revision: str) -> Load:
        """What decode pods may get that is at none yet."""
        return self.coming

    def expected(self, flight: SimulatedFlight) -> Expected:
        """What to expect of a request, as far as it is known."""
        return self.learned.expected(
            flight.request.prompt_tokens, output_tokens=self.output_tokens, held=self._held(flight)
        )

    def prefix_of(self, flight: SimulatedFlight) -> Prefix:
        """What others may share of its prompt, as far as the router looks at that."""
        if self.sees is Sees.NOTHING:
            return NO_PREFIX
        return Prefix(flight.request.blocks, self.block_tokens)

    def _held(self, flight: SimulatedFlight) -> dict[str, int]:
        """Tokens of its prompt that pods should have cached, by their names."""
        found = self.memory_of(flight).held(self.prefix_of(flight))
        if self.sees is not Sees.ALL:
            return {side.name: tokens for side, tokens in found.items()}
        # What it waits for there it finds as well: that is what a memory is asked for.
        return {
            side.name: max(found.get(side, 0), side.pod.engine.cached_tokens(flight))
            for side in self._prefill.values()
        }

    def forget_gone(self) -> None:
        """Forget what was at prefill pods that are gone."""
        for side in [side for side in self._prefill.values() if side.pod.gone_s is not None]:
            for memory in self.memories:
                memory.forget(side)
            del self._prefill[side.pod.index]

    def cache_worth(self, now_s: float) -> Counter[str]:
        """What the cache of each prefill pod saved lately, over all routers, by its name."""
        found: Counter[str] = Counter()
        for memory in self.memories:
            found.update({side.name: tokens for side, tokens in memory.worth.by_pod(now_s).items()})
        return found

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
        held, cached = expected.held_tokens(side.name), expected.cached_tokens(side.name)
        work_s = expected.work_s(alone=alone, at=side.name)
        load = Load(flight.request.prompt_tokens - cached, work_s)
        side.enter(load, now_s)
        prefix, entries = self.prefix_of(flight), side.entries if alone else None
        memory = self.memory_of(flight)
        memory.sent(side, prefix)
        memory.worth.add(side, expected.saved_tokens(side.name), now=now_s)
        self._prefilling[flight] = _PrefillLeg(side, load, now_s, entries, prefix, held)
        self._let_in(flight, decode_load, now_s)

    def tell_others(self, flight: SimulatedFlight, side: PrefillSide) -> None:
        """Have the other routers hear where a prompt was computed."""
        if side.pod.gone_s is None:
            own = self.memory_of(flight)
            for memory in self.memories:
                if memory is not own:
                    memory.heard(side, self.prefix_of(flight))

    def side_of(self, flight: SimulatedFlight) -> PrefillSide:
        """Where a prompt is computed."""
        return self._prefilling[flight].side

    def came_back(self, flights: Iterable[SimulatedFlight], now_s: float) -> None:
        """A prefill pod is done with some: what is left there begins now."""
        for flight in flights:
            leg = self._prefilling.pop(flight)
            side, prompt, cached = leg.side, flight.request.prompt_tokens, flight.cached_tokens
            side.leave(leg.load, now_s)
            self.memory_of(flight).ended(side, leg.prefix, computed=True)
            learned, leg_s = self.learned, now_s - leg.sent_s
            learned.prefilled(prompt, cached_tokens=cached, held_tokens=leg.held_tokens)
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
        self._let_in(flight, load, now_s)

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
        lost = self._prefilling.pop(flight, None)
        if lost is not None:
            self.memory_of(flight).ended(lost.side, lost.prefix, computed=False)
        leg = self._decoding.pop(flight, None)
        if flight.reserved != NO_LOAD:
            self.guaranteed.ended(flight.reserved)
            flight.reserved = NO_LOAD
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

    def _let_in(self, flight: SimulatedFlight, load: Load, now_s: float) -> None:
        flight.load = load
        self.coming += load
        if flight.slo_class is not None and flight.guaranteed:
            flight.reserved = load
            self.guaranteed.began(load, now=now_s)

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
