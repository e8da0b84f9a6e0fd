"""The run of pools, their shared cluster and their policies, until every request has ended.

The same scenario and seed give the same run, to the last bit.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.slo import class_named
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.faults import Fault, MetricsGone, during
from tandem_operator.sim.cluster.pods import Cluster, ColdStart
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.ledger import quantile
from tandem_operator.sim.observe import observe, with_pods, without_metrics
from tandem_operator.sim.policy import EPOCH_S, Policy
from tandem_operator.sim.pool import Pool, PoolSetup
from tandem_operator.sim.report import (
    SHARES,
    ClassOutcome,
    Moment,
    PoolReport,
    TenantOutcome,
    latency_quantiles,
)
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing.verdict import Ending

FIRST_TICK_S = 5.0
PATIENCE_S = 1800.0
NOTICED_S = 1.2
"""The longest time from a request at a pool at zero to the tick that it brings forward: the live
queue of passes waits for 0.2 s, and for a second between two passes."""
_TURNED_AWAY = (Ending.SHED, Ending.TOO_LATE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a run depends on.

    Attributes:
        gpus: GPUs of the cluster; `None`: no limit.
        faults: faults of the cluster; a pool's own faults are in its setup.
        least_s: least length of the run, with or without requests.
        patience_s: time after the last arrival in which requests may still end.
    """

    pools: tuple[PoolSetup, ...]
    cold_start: ColdStart = field(default_factory=ColdStart)
    gpus: int | None = None
    faults: tuple[Fault, ...] = ()
    seed: int = 1
    least_s: float = 0.0
    patience_s: float = PATIENCE_S


@dataclass(slots=True)
class _Driven:
    """A pool and its policy."""

    pool: Pool
    policy: Policy
    reads: deque[tuple[float, Observation]] = field(default_factory=deque)
    moments: list[Moment] = field(default_factory=list)
    changes: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    listens: bool = False


class Simulation:
    """A scenario in progress."""

    def __init__(self, scenario: Scenario, policies: Mapping[str, Policy]) -> None:
        self.scenario = scenario
        self.clock = Clock()
        self.cluster = Cluster(
            clock=self.clock,
            random=Random(scenario.seed),
            cold_start=scenario.cold_start,
            gpus=scenario.gpus,
            faults=scenario.faults,
        )
        self._driven = {
            setup.name: _Driven(
                pool=Pool(setup, clock=self.clock, cluster=self.cluster),
                policy=policies[setup.name],
            )
            for setup in scenario.pools
        }
        for driven in self._driven.values():
            self._expect(driven, iter(driven.pool.setup.trace.requests))
            self._plan_tick(driven, FIRST_TICK_S)

    def pool(self, name: str) -> Pool:
        """Return a pool of the scenario."""
        return self._driven[name].pool

    def edit(self, name: str, spec: PoolSpec, *, at_s: float) -> None:
        """Plan a user's change of a pool's spec at a moment."""
        self.clock.at(at_s, partial(self._set_spec, name, spec))

    def run(self) -> dict[str, PoolReport]:
        """Run to the end; return one report per pool."""
        last_s = max(setup.trace.span_s for setup in self.scenario.pools)
        deadline_s = max(last_s, self.scenario.least_s) + self.scenario.patience_s
        while not self._is_over and self.clock.now_s < deadline_s:
            self.clock.step()
        ends = [f.end_s or 0.0 for d in self._driven.values() for f in d.pool.ended]
        end_s = max([*ends, self.scenario.least_s]) if self._is_over else self.clock.now_s
        return {name: self._report(driven, end_s) for name, driven in self._driven.items()}

    @property
    def _is_over(self) -> bool:
        return self.clock.now_s >= self.scenario.least_s and all(
            len(driven.pool.ended) + len(driven.pool.limited)
            == len(driven.pool.setup.trace.requests)
            for driven in self._driven.values()
        )

    def _set_spec(self, name: str, spec: PoolSpec) -> None:
        self.pool(name).edit(spec)

    def _expect(self, driven: _Driven, requests: Iterator[TraceRequest]) -> None:
        request = next(requests, None)
        if request is not None:
            self.clock.at(request.at_s, partial(self._arrive, driven, request, requests))

    def _arrive(
        self, driven: _Driven, request: TraceRequest, requests: Iterator[TraceRequest]
    ) -> None:
        # A refused request wakes no pool.
        if driven.pool.enter(request) and driven.listens:
            driven.listens = False
            self.clock.after(NOTICED_S, partial(self._noticed, driven))
        self._expect(driven, requests)

    def _noticed(self, driven: _Driven) -> None:
        self._read(driven)
        self._decide(driven)

    def _plan_tick(self, driven: _Driven, in_s: float) -> None:
        """Plan a tick, and before it the reading of its metrics, by their delay."""
        early_s = min(in_s, driven.pool.setup.metric_delay_s)
        self.clock.after(in_s - early_s, partial(self._read, driven))
        self.clock.after(in_s, partial(self._tick, driven))

    def _read(self, driven: _Driven) -> None:
        seen = observe(driven.pool)
        faults = (*self.scenario.faults, *driven.pool.setup.faults)
        for fault in faults:
            if isinstance(fault, MetricsGone) and during(fault, self.clock.now_s):
                seen = without_metrics(seen, routers=fault.routers, engine_share=fault.engine_share)
        driven.reads.append((self.clock.now_s, seen))

    def _newest(self, driven: _Driven) -> Observation:
        """Return the newest metrics that have arrived; before that, the present ones emptied."""
        arrived_s = self.clock.now_s - driven.pool.setup.metric_delay_s + 1e-6
        reads = driven.reads
        while len(reads) > 1 and reads[1][0] <= arrived_s:
            reads.popleft()
        read_s, seen = reads[0]
        if read_s <= arrived_s:
            return seen
        return without_metrics(seen, routers=True, engine_share=1.0)

    def _tick(self, driven: _Driven) -> None:
        self._plan_tick(driven, self._decide(driven))

    def _decide(self, driven: _Driven) -> float:
        """Let the policy decide; return when it wants to be asked again."""
        pool = driven.pool
        seen = with_pods(pool, self._newest(driven))
        answer = driven.policy.tick(pool.spec, seen, self.clock.now_s + EPOCH_S)
        for role, count in answer.replicas.items():
            fleet = pool.fleet(role)
            driven.changes[role] += count != fleet.asked
            fleet.scale(count)
        if answer.for_router is not None:
            told = answer.for_router
            pool.router.hear(told.pace, wake_s=told.wake_s)
        driven.listens = answer.listens
        driven.moments.append(
            Moment(
                at_s=self.clock.now_s,
                asked={role: pool.fleet(role).asked for role in Role},
                ready={role: len(pool.fleet(role).serving) for role in Role},
                gpus=sum(
                    pod.gpus
                    for role in Role
                    for pod in pool.fleet(role).pods
                    if pod.bound_s is not None
                ),
                queued=len(pool.router.queue),
                finished=pool.ledger.totals.finished,
                good=pool.ledger.totals.good,
            )
        )
        return answer.next_tick_s

    def _report(self, driven: _Driven, end_s: float) -> PoolReport:
        pool = driven.pool
        flights = pool.ended
        totals = pool.ledger.totals
        ttft, tpot = latency_quantiles(flights)
        answered = sum(1 for f in flights if f.ending is Ending.ANSWERED)
        gpu_seconds = {role: pool.fleet(role).gpu_seconds(end_s) for role in Role}
        decode_pods = (*pool.decode.pods, *pool.decode.gone)
        return PoolReport(
            pool=pool.setup.name,
            policy=driven.policy.name,
            trace=pool.setup.trace.name,
            seed=self.scenario.seed,
            requests=pool.entered,
            completed=answered,
            failed=len(flights) - answered,
            unfinished=pool.entered - len(flights),
            good=totals.good,
            late_ttft=totals.late_ttft,
            late_tpot=totals.late_tpot,
            gpu_seconds=gpu_seconds,
            replica_seconds={
                role: held / pool.setup.spec.roles[role].gpus_per_replica
                for role, held in gpu_seconds.items()
            },
            ttft_s=ttft,
            tpot_s=tpot,
            blame=dict(sorted(totals.blame.items())),
            changes=dict(driven.changes),
            preemptions=sum(pod.engine.preemptions for pod in decode_pods),
            overflowed=sum(1 for f in flights if f.overflowed),
            output_tokens=totals.output_tokens,
            end_s=end_s,
            moments=tuple(driven.moments),
            classes=_classes(pool),
            limited=len(pool.limited),
            tenants=_tenants(pool),
        )


def _classes(pool: Pool) -> dict[str, ClassOutcome]:
    """Return the results of each class; a request that has not ended counts as not good."""
    requests = _by_class(pool, pool.setup.trace.requests)
    requests.subtract(_by_class(pool, pool.limited))
    found = {}
    for each in pool.spec.classes:
        ended = [f for f in pool.ended if f.slo_class is not None and f.slo_class.name == each.name]
        good = [flight for flight in ended if judge(flight, each.slo).good]
        found[each.name] = ClassOutcome(
            requests=requests[each.name],
            good=len(good),
            output_tokens=sum(flight.made for flight in ended),
            good_output_tokens=sum(flight.made for flight in good),
            guaranteed=each.guaranteed,
            refused=sum(flight.ending is Ending.TOO_LATE for flight in ended),
        )
    return found


def _by_class(pool: Pool, requests: Iterable[TraceRequest]) -> Counter[str]:
    return Counter(
        each.name
        for asked in requests
        if (each := class_named(pool.spec.classes, asked.slo_class)) is not None
    )


def _tenants(pool: Pool) -> dict[str, TenantOutcome]:
    """Return the results of each tenant, and of requests that name none; empty: none names any."""
    requests = Counter(asked.tenant for asked in pool.setup.trace.requests)
    if not any(requests):
        return {}
    limited = Counter(asked.tenant for asked in pool.limited)
    ended_of: dict[str, list[SimulatedFlight]] = {name: [] for name in sorted(requests)}
    for flight in pool.ended:
        ended_of[flight.request.tenant].append(flight)
    found = {}
    for name, ended in ended_of.items():
        slos = (pool.spec.slo if f.slo_class is None else f.slo_class.slo for f in ended)
        good = sum(judge(flight, slo).good for flight, slo in zip(ended, slos, strict=True))
        waits = sorted(flight.ttft_s for flight in ended if flight.ttft_s is not None)
        found[name] = TenantOutcome(
            requests=requests[name],
            good=good,
            limited=limited[name],
            refused=limited[name] + sum(flight.ending in _TURNED_AWAY for flight in ended),
            output_tokens=sum(flight.made for flight in ended),
            ttft_p99_s=quantile(waits, SHARES["p99"]),
        )
    return found


def simulate(setup: PoolSetup, policy: Policy, scenario: Scenario | None = None) -> PoolReport:
    """Run one pool; `scenario` gives the cluster around it, and its pools are ignored."""
    around = Scenario(pools=()) if scenario is None else scenario
    run = Simulation(replace(around, pools=(setup,)), {setup.name: policy})
    return run.run()[setup.name]
