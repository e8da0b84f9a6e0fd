"""One pool in motion: a router, two fleets, and requests that go from one to the other.

Invariant: a request that entered is in exactly one place (the queue, a prefill pod, between the
fleets, a decode pod, or ended), and every one that entered ends or is still in its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.clock import Clock
from tandem_operator.sim.decode_pod import DecodePod
from tandem_operator.sim.faults import Fault, PodLoss, SlowPod
from tandem_operator.sim.fleet import Fleet
from tandem_operator.sim.flight import Ending, Flight, judge
from tandem_operator.sim.ledger import Ledger
from tandem_operator.sim.pods import Cluster, E, Engine, Pod
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.prefill_pod import PrefillPod, PrefixCache
from tandem_operator.sim.profile import EngineProfile, jitter_factors
from tandem_operator.sim.router_queue import Candidate, RouterQueue, RouterSettings, Spread, pick
from tandem_operator.sim.trace import Trace, TraceRequest

AFFINITY_SLACK_PASSES = 1.0
OVERFLOW_TPOT_SHARE = 0.85


@dataclass(frozen=True, slots=True)
class PoolSetup:
    """A pool before its first request.

    Attributes:
        start: replicas that are ready at the start.
        metric_delay_s: age of the metrics that a tick sees.
        prefix_caching: whether prefill pods keep prefix blocks.
    """

    name: str
    spec: PoolSpec
    trace: Trace
    profile: EngineProfile
    start: Mapping[Role, int]
    router: RouterSettings = field(default_factory=RouterSettings)
    faults: tuple[Fault, ...] = ()
    metric_delay_s: float = 0.0
    prefix_caching: bool = True


class Pool:
    """The moving parts. `ended` holds every request that is over, with what it is blamed on."""

    def __init__(self, setup: PoolSetup, *, clock: Clock, cluster: Cluster) -> None:
        self.setup = setup
        self.spec = setup.spec
        self.clock = clock
        self.ledger = Ledger(epoch_s=EPOCH_S)
        self.queue = RouterQueue(setup.router.order, expected_s=self._expected_s)
        self.between: list[Flight] = []
        self.ended: list[Flight] = []
        self.entered = 0
        self._last = dict.fromkeys(Role, -1)
        gpus = {role: setup.spec.roles[role].gpus_per_replica for role in Role}
        self.prefill: Fleet[PrefillPod] = Fleet(
            pool=setup.name,
            role=Role.PREFILL,
            gpus_per_replica=gpus[Role.PREFILL],
            clock=clock,
            cluster=cluster,
            engine=self._prefill_engine,
            up_to_date=lambda pod: None,
            when_ready=self._pump,
        )
        self.decode: Fleet[DecodePod] = Fleet(
            pool=setup.name,
            role=Role.DECODE,
            gpus_per_replica=gpus[Role.DECODE],
            clock=clock,
            cluster=cluster,
            engine=self._decode_engine,
            up_to_date=self._advance,
            when_ready=self._decode_ready,
        )
        self.prefill.begin(setup.start[Role.PREFILL])
        self.decode.begin(setup.start[Role.DECODE])
        for fault in setup.faults:
            if isinstance(fault, PodLoss):
                clock.at(fault.at_s, partial(self._lose_oldest, fault.role))
            elif isinstance(fault, SlowPod):
                clock.at(fault.at_s, partial(self._slow_oldest, fault))

    def fleet(self, role: Role) -> Fleet[PrefillPod] | Fleet[DecodePod]:
        """The role's pods."""
        return self.prefill if role is Role.PREFILL else self.decode

    def catch_up(self) -> None:
        """Run every decode pod up to now, and let drained ones go."""
        for pod in list(self.decode.pods):
            self._advance(pod)

    def enter(self, request: TraceRequest) -> None:
        """Take a request from a client."""
        bound_s = self.spec.slo.ttft_bound_s(request.prompt_tokens)
        flight = Flight(request, number=self.entered, deadline_s=request.at_s + bound_s)
        self.entered += 1
        self.ledger.arrive(flight)
        tokens = request.prompt_tokens + request.output_tokens
        if tokens > min(self.setup.profile.kv_capacity_tokens, self.spec.max_model_len):
            self._fail(flight)
            return
        self.queue.add(flight)
        self._pump()

    def _prefill_engine(self, name: str) -> PrefillPod:
        profile, block_tokens = self.setup.profile, self.setup.trace.block_tokens
        blocks = profile.kv_capacity_tokens // block_tokens
        cache = PrefixCache(blocks=blocks) if self.setup.prefix_caching else None
        return PrefillPod(profile, block_tokens, cache, jitter=jitter_factors(profile, name))

    def _decode_engine(self, name: str) -> DecodePod:
        profile = self.setup.profile
        jitter = jitter_factors(profile, name)
        return DecodePod(profile, jitter=jitter, at_s=self.clock.now_s)

    def _decode_ready(self) -> None:
        waited, self.between = self.between, []
        for flight in waited:
            self._hand_over(flight)
        self._pump()

    def _expected_s(self, flight: Flight) -> float:
        profile, prompt = self.setup.profile, flight.request.prompt_tokens
        return profile.service_s(prompt) + profile.handover_s(prompt) + profile.step_s(1, prompt)

    def _pump(self) -> None:
        """Send on every request that there is room for."""
        settings = self.setup.router
        most = settings.requests_per_prefill_pod
        while self.decode.oldest and (flight := self.queue.first(self.clock.now_s)) is not None:
            free = [
                pod for pod in self.prefill.serving if most is None or pod.engine.requests < most
            ]
            if free:
                self.queue.take(flight)
                self._send(flight, self._choose_prefill(free, flight))
            elif settings.overflow and (pod := self._slack_for(flight)) is not None:
                self.queue.take(flight)
                self._overflow(flight, pod)
            else:
                return

    def _choose_prefill(self, pods: list[Pod[PrefillPod]], flight: Flight) -> Pod[PrefillPod]:
        affine = self.setup.router.spread is Spread.PREFIX_AFFINE
        candidates = [
            Candidate(
                index=pod.index,
                load_tokens=pod.engine.outstanding_tokens,
                cached_tokens=pod.engine.cached_tokens(flight) if affine else 0,
            )
            for pod in pods
        ]
        return self._picked(pods, candidates, Role.PREFILL)

    def _choose_decode(self, pods: list[Pod[DecodePod]]) -> Pod[DecodePod]:
        # Requests decide: each takes a place in the batch whatever its length.
        capacity = self.setup.profile.kv_capacity_tokens
        candidates = [
            Candidate(pod.index, pod.engine.requests * capacity + pod.engine.kv_tokens)
            for pod in pods
        ]
        return self._picked(pods, candidates, Role.DECODE)

    def _picked(self, pods: list[Pod[E]], candidates: list[Candidate], role: Role) -> Pod[E]:
        chosen = pick(
            candidates,
            self.setup.router.spread,
            last=self._last[role],
            slack_tokens=AFFINITY_SLACK_PASSES * self.setup.profile.max_num_batched_tokens,
        )
        self._last[role] = chosen.index
        return next(pod for pod in pods if pod.index == chosen.index)

    def _send(self, flight: Flight, pod: Pod[PrefillPod]) -> None:
        flight.dispatched_s = self.clock.now_s
        pod.engine.enter(flight, self.clock.now_s)
        if pod.engine.idle:
            self._start_pass(pod)

    def _start_pass(self, pod: Pod[PrefillPod]) -> None:
        end_s = pod.engine.start_pass(self.clock.now_s)
        if end_s is not None:
            self.clock.at(end_s, partial(self._end_pass, pod))

    def _end_pass(self, pod: Pod[PrefillPod]) -> None:
        if pod.gone_s is not None:
            return
        for flight in pod.engine.end_pass(self.clock.now_s):
            flight.prefilled_s = self.clock.now_s
            self.ledger.cached(flight)
            self._hand_over(flight)
        self._pump()
        if pod.leaving and pod.engine.requests == 0:
            self.prefill.end(pod, self.clock.now_s)
        elif pod.engine.idle:
            self._start_pass(pod)

    def _hand_over(self, flight: Flight) -> None:
        """Bring a prefilled request to a decode pod; with none there, it waits."""
        pods = self.decode.serving
        if not pods:
            self.between.append(flight)
            return
        for pod in pods:
            self._advance(pod)
        flight.handover_s = self.setup.profile.handover_s(flight.request.prompt_tokens)
        self._choose_decode(pods).engine.join(flight, self.clock.now_s + flight.handover_s)

    def _slack_for(self, flight: Flight) -> Pod[DecodePod] | None:
        """A decode pod that can take the whole request and still keep TPOT for all inside.

        Only for a request that would be late where it waits, and would not be late there.
        """
        profile, request = self.setup.profile, flight.request
        most_step_s = OVERFLOW_TPOT_SHARE * self.spec.slo.tpot_s
        least_s = self.clock.now_s + self._expected_s(flight)
        waiting = min((pod.engine.outstanding_tokens for pod in self.prefill.serving), default=0)
        full = profile.max_num_batched_tokens
        wait_s = waiting * profile.work_s(full) / full
        if not least_s <= flight.deadline_s < least_s + wait_s:
            return None
        # The prompt stretches one gap of every stream there: their slack must bear it.
        stretch_s = profile.service_s(request.prompt_tokens) / max(32, request.output_tokens)
        fit = []
        for pod in self.decode.serving:
            self._advance(pod)
            engine = pod.engine
            batch = engine.requests + 1
            kv_tokens = engine.kv_tokens + request.prompt_tokens + request.output_tokens
            room = kv_tokens <= profile.kv_capacity_tokens and batch <= profile.max_num_seqs
            step_s = profile.step_s(batch, kv_tokens) + stretch_s
            if room and engine.computing == 0 and step_s <= most_step_s:
                fit.append(pod)
        return self._choose_decode(fit) if fit else None

    def _overflow(self, flight: Flight, pod: Pod[DecodePod]) -> None:
        flight.dispatched_s = self.clock.now_s
        flight.overflowed = True
        flight.compute_tokens = flight.request.prompt_tokens
        flight.service_s = self.setup.profile.service_s(flight.request.prompt_tokens)
        pod.engine.join(flight, self.clock.now_s)

    def _advance(self, pod: Pod[DecodePod]) -> None:
        engine = pod.engine
        engine.advance(self.clock.now_s)
        if engine.ended:
            for flight in engine.ended:
                self._finish(flight)
            engine.ended.clear()
            if pod.leaving and pod.gone_s is None and engine.requests == 0:
                self.decode.end(pod, engine.at_s)

    def _finish(self, flight: Flight) -> None:
        self.ledger.finish(flight, judge(flight, self.spec.slo))
        self.ended.append(flight)

    def _fail(self, flight: Flight) -> None:
        flight.ending, flight.end_s = Ending.FAILED, self.clock.now_s
        self._finish(flight)

    def _lose_oldest(self, role: Role) -> None:
        """A pod dies: streams that had begun fail, what had not begins anew."""
        if role is Role.PREFILL:
            lost = self._lose(self.prefill)
        else:
            self.catch_up()
            lost = self._lose(self.decode)
        for flight in lost:
            if flight.first_s is not None:
                self._fail(flight)
            else:
                flight.forget_progress()
                self.queue.add(flight)
        self._pump()

    def _lose(self, fleet: Fleet[E]) -> list[Flight]:
        pod = fleet.oldest
        if pod is None:
            return []
        lost = pod.engine.drop_all()
        fleet.lose(pod)
        return lost

    def _slow_oldest(self, fault: SlowPod) -> None:
        self.catch_up()
        pod = self.fleet(fault.role).oldest
        if pod is not None:
            self._set_speed(pod.engine, fault.factor)
            self.clock.at(fault.until_s, partial(self._set_speed, pod.engine, 1.0))

    def _set_speed(self, engine: Engine, factor: float) -> None:
        self.catch_up()
        engine.slowdown = factor
