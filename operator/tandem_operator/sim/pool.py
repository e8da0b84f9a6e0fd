"""One pool in motion: a router, two fleets, and requests that move between them.

Invariant: a request that entered is in exactly one place: the queue, a prefill pod, between the
fleets, a decode pod, or ended. No request is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tandem_operator.core.guard.leaving_order import computed_tokens_each, leaving_cost
from tandem_operator.core.role import Role
from tandem_operator.core.slo import class_named
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.faults import Fault, PodLoss, Reclaimed, SlowPod
from tandem_operator.sim.cluster.fleet import SimulatedFleet
from tandem_operator.sim.cluster.pods import Cluster, E, PodEngine, SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod, PrefixCache
from tandem_operator.sim.engines.profile import EngineProfile, jitter_factors
from tandem_operator.sim.flight import SimulatedFlight, found
from tandem_operator.sim.ledger import SimulatedLedger
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.routing.router import SimulatedRouter
from tandem_operator.sim.routing.router_queue import QueueSettings, Spread
from tandem_operator.sim.routing.tenant_rules import TenantGate
from tandem_operator.sim.traces.trace import Trace, TraceRequest
from tandem_routing.verdict import Ending


@dataclass(frozen=True, slots=True)
class PoolSetup:
    """A pool before its first request.

    Attributes:
        start: replicas that are ready at the start.
        metric_delay_s: age of the metrics that a tick sees.
        prefix_caching: whether prefill pods keep prefix blocks.
        one_cache: a cache that all prefill pods share: real engines do not, so it is a bound.
        worth_counts: whether a scale-down of prefill looks at caches, or at the load alone.
    """

    name: str
    spec: PoolSpec
    trace: Trace
    profile: EngineProfile
    start: Mapping[Role, int]
    router: QueueSettings = field(default_factory=QueueSettings)
    faults: tuple[Fault, ...] = ()
    metric_delay_s: float = 0.0
    prefix_caching: bool = True
    one_cache: PrefixCache | None = None
    worth_counts: bool = True


class Pool:
    """The moving parts.

    Attributes:
        ended: every request that entered and ended.
        limited: the requests that did not enter, because a limit of their tenant refused them.
    """

    def __init__(self, setup: PoolSetup, *, clock: Clock, cluster: Cluster) -> None:
        self.setup = setup
        self.spec = setup.spec
        self.clock = clock
        self.ledger = SimulatedLedger(epoch_s=EPOCH_S)
        self.ended: list[SimulatedFlight] = []
        self.limited: list[TraceRequest] = []
        self.entered = 0
        gpus = {role: setup.spec.roles[role].gpus_per_replica for role in Role}
        self.prefill: SimulatedFleet[PrefillPod] = SimulatedFleet(
            pool=setup.name,
            role=Role.PREFILL,
            gpus_per_replica=gpus[Role.PREFILL],
            clock=clock,
            cluster=cluster,
            engine=self._prefill_engine,
            leaving_cost=self._prefill_cost,
            up_to_date=lambda pod: None,
            when_ready=self._prefill_ready,
        )
        self.decode: SimulatedFleet[DecodePod] = SimulatedFleet(
            pool=setup.name,
            role=Role.DECODE,
            gpus_per_replica=gpus[Role.DECODE],
            clock=clock,
            cluster=cluster,
            engine=self._decode_engine,
            leaving_cost=lambda pod: leaving_cost(pod.engine.requests),
            up_to_date=self._advance,
            when_ready=self._decode_ready,
        )
        router = setup.router
        if not setup.prefix_caching and router.spread is Spread.PREFIX:
            # A live router, too, is not told to search for blocks that no pod keeps.
            router = replace(router, spread=Spread.LEAST_LOADED)
        self._tenants = None if router.tenants is None else TenantGate(router.tenants)
        self.router = SimulatedRouter(
            router,
            profile=setup.profile,
            spec=setup.spec,
            clock=clock,
            prefill=self.prefill,
            decode=self.decode,
            start_pass=self._start_pass,
            advance=self._advance,
            shed=partial(self._fail, ending=Ending.SHED),
            refuse=partial(self._fail, ending=Ending.TOO_LATE),
            block_tokens=setup.trace.block_tokens,
        )
        self.prefill.begin(setup.start[Role.PREFILL])
        self.decode.begin(setup.start[Role.DECODE])
        for fault in setup.faults:
            if isinstance(fault, PodLoss):
                clock.at(fault.at_s, partial(self._lose_oldest, fault.role))
            elif isinstance(fault, Reclaimed):
                clock.at(fault.at_s, partial(self._reclaim_oldest, fault))
            elif isinstance(fault, SlowPod):
                clock.at(fault.at_s, partial(self._slow_oldest, fault))

    def edit(self, spec: PoolSpec) -> None:
        """Use another spec from now on."""
        self.catch_up()
        self.spec = spec
        self.router.view.tpot_s = spec.slo.tpot_s

    def fleet(self, role: Role) -> SimulatedFleet[PrefillPod] | SimulatedFleet[DecodePod]:
        """Return the role's pods."""
        return self.prefill if role is Role.PREFILL else self.decode

    def catch_up(self) -> None:
        """Run every decode pod up to now, and let drained ones leave."""
        for pod in list(self.decode.pods):
            self._advance(pod)

    def enter(self, request: TraceRequest) -> bool:
        """Accept a request from a client; False: a limit of its tenant refuses it."""
        slo_class = class_named(self.spec.classes, request.slo_class)
        slo = self.spec.slo if slo_class is None else slo_class.slo
        flight = SimulatedFlight(
            request,
            number=self.entered,
            deadline_s=request.at_s + slo.ttft_bound_s(request.prompt_tokens),
            slo_class=slo_class,
        )
        if not self._admits(flight):
            self.limited.append(request)
            return False
        self.entered += 1
        self.ledger.arrive(flight)
        tokens = request.prompt_tokens + request.output_tokens
        if tokens > min(self.setup.profile.kv_capacity_tokens, self.spec.max_model_len):
            self._fail(flight)
        else:
            self.router.add(flight)
        return True

    def _admits(self, flight: SimulatedFlight) -> bool:
        if self._tenants is None:
            return True
        if self._tenants.counts_tokens(flight.request):
            # Requests that have ended meanwhile used more or less than was expected.
            self.catch_up()
        tokens = flight.request.prompt_tokens + self.router.view.output_tokens
        return self._tenants.admits(flight, tokens=tokens, now_s=self.clock.now_s)

    def _prefill_engine(self, name: str) -> PrefillPod:
        profile, block_tokens = self.setup.profile, self.setup.trace.block_tokens
        blocks = profile.kv_capacity_tokens // block_tokens
        cache = PrefixCache(blocks=blocks) if self.setup.prefix_caching else None
        cache = self.setup.one_cache or cache
        return PrefillPod(profile, block_tokens, cache, jitter=jitter_factors(profile, name))

    def _decode_engine(self, name: str) -> DecodePod:
        profile = self.setup.profile
        jitter = jitter_factors(profile, name)
        return DecodePod(profile, jitter=jitter, at_s=self.clock.now_s)

    def _prefill_cost(self, pod: SimulatedPod[PrefillPod]) -> int:
        if not self.setup.worth_counts:
            return leaving_cost(pod.engine.requests)
        totals = [each.engine.totals for each in (*self.prefill.pods, *self.prefill.gone)]
        return leaving_cost(
            pod.engine.requests,
            worth_tokens=self.router.view.cache_worth(self.clock.now_s)[pod.name],
            tokens_each=computed_tokens_each(totals),
        )

    def _prefill_ready(self) -> None:
        self.router.pump()

    def _decode_ready(self) -> None:
        self.router.decode_ready()

    def _start_pass(self, pod: SimulatedPod[PrefillPod]) -> None:
        end_s = pod.engine.start_pass(self.clock.now_s)
        if end_s is not None:
            self.clock.at(end_s, partial(self._end_pass, pod))

    def _end_pass(self, pod: SimulatedPod[PrefillPod]) -> None:
        if pod.gone_s is not None:
            return
        done = pod.engine.end_pass(self.clock.now_s)
        for flight in done:
            flight.prefilled_s = self.clock.now_s
            self.ledger.cached(flight)
        self.router.legs.came_back(done)
        # The engine continues with its requests; new ones from the router come a moment later.
        self._start_pass(pod)
        self.router.pump()
        if pod.leaving and pod.gone_s is None and pod.engine.requests == 0:
            self.prefill.end(pod, self.clock.now_s)

    def _advance(self, pod: SimulatedPod[DecodePod]) -> None:
        engine = pod.engine
        engine.advance(self.clock.now_s)
        if engine.ended:
            for flight in engine.ended:
                self._finish(flight)
            engine.ended.clear()
            if pod.leaving and pod.gone_s is None and engine.requests == 0:
                self.decode.end(pod, engine.at_s)

    def _finish(self, flight: SimulatedFlight) -> None:
        self.router.view.left(flight, self.clock.now_s)
        self.router.queue.settle(flight)
        if self._tenants is not None:
            self._tenants.ended(flight, now_s=self.clock.now_s)
        self.router.ended(flight)
        # A class that is edited meanwhile judges by what it is now.
        now = class_named(
            self.spec.classes, "" if flight.slo_class is None else flight.slo_class.name
        )
        verdict = found(flight, self.spec.slo if now is None else now.slo)
        cause = self.router.view.learned.ended(
            verdict,
            flight.ending or Ending.FAILED,
            prompt_tokens=flight.request.prompt_tokens,
            output_tokens=flight.made,
            guaranteed=flight.guaranteed,
        )
        self.ledger.finish(flight, verdict, cause)
        self.ended.append(flight)

    def _fail(self, flight: SimulatedFlight, ending: Ending = Ending.FAILED) -> None:
        flight.ending, flight.end_s = ending, self.clock.now_s
        self._finish(flight)

    def _lose_oldest(self, role: Role) -> None:
        if role is Role.PREFILL:
            self._lose(self.prefill, self.prefill.oldest)
        else:
            self._lose(self.decode, self.decode.oldest)

    def _reclaim_oldest(self, fault: Reclaimed) -> None:
        if fault.role is Role.PREFILL:
            self._reclaim(self.prefill, fault.notice_s)
        else:
            self._reclaim(self.decode, fault.notice_s)

    def _reclaim(self, fleet: SimulatedFleet[E], notice_s: float) -> None:
        """Make another pod at once; work that this one has not finished in time is lost with it."""
        self.catch_up()
        pod = fleet.oldest
        if pod is not None:
            fleet.drain(pod)
            fleet.scale(fleet.asked)
            self.clock.after(notice_s, partial(self._lose, fleet, pod))

    def _lose(self, fleet: SimulatedFleet[E], pod: SimulatedPod[E] | None) -> None:
        """End a pod by its death: streams that had begun fail, other requests start again."""
        self.catch_up()
        if pod is None or pod.gone_s is not None:
            return
        lost = pod.engine.drop_all()
        fleet.lose(pod)
        for flight in lost:
            if flight.first_s is not None:
                self._fail(flight)
            else:
                self.router.view.left(flight, self.clock.now_s)
                flight.forget_progress()
                self.router.add(flight)

    def _slow_oldest(self, fault: SlowPod) -> None:
        self.catch_up()
        pod = self.fleet(fault.role).oldest
        if pod is not None:
            self._set_speed(pod.engine, fault.factor)
            self.clock.at(fault.until_s, partial(self._set_speed, pod.engine, 1.0))

    def _set_speed(self, engine: PodEngine, factor: float) -> None:
        self.catch_up()
        engine.slowdown = factor
