"""A simulated stretch of one pool as Prometheus would have scraped it: operator, router, scrape.

The live core decides, the operator's own exporter shows it, and the router's own metrics count the
requests. Only the labels and series that a scrape itself adds are written here.
"""

from collections.abc import Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry, ProcessCollector

from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.upstream import FailureReason
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.scheduling.placement import DecodeOnly
from tandem_operator.api import Condition, ConditionType, Cost
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.rest import Rest, Wake
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.shown_pool import ShownPool
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import found
from tandem_operator.sim.policy import EPOCH_S, PolicyAnswer, Tandem
from tandem_operator.sim.pool import Pool, PoolSetup
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_routing.verdict import Ending, blame
from tests.simulation.stories import ENGINE, ONE_EACH, Phase, told
from tests.unit.core.scene import make_spec

NAMESPACE, POOL = "chat", "qwen"
OPERATOR = {
    "namespace": "tandem-system",
    "job": "tandem-operator-metrics",
    "pod": "tandem-operator-0",
}
ROUTER = {"namespace": NAMESPACE, "job": "chat/qwen", "pod": "qwen-router-7d5f9c8b7-x2v4k"}
SCRAPE_S = 20.0
PHASES = [
    Phase("calm", 150.0, 2.0, 300, 60),
    Phase("rush", 350.0, 10.0, 900, 90),
    Phase("calm again", 400.0, 2.0, 300, 60),
]
BEGIN_S, END_S = EPOCH_S, EPOCH_S + sum(phase.seconds for phase in PHASES)
SPEC = replace(
    make_spec(per_thousand_s=0.2, high=6, gpu_budget=6, tpot_s=0.04), sleep_after_s=3600.0
)
WOKEN = Wake(EPOCH_S - 99.0, EPOCH_S - 98.0, 1, EPOCH_S - 97.0, EPOCH_S - 3.0, EPOCH_S - 2.5)
"""The wake of the morning."""


class Scraped(Tandem):
    """The live core, whose exporter and whose router's metrics are scraped as it goes."""

    def __init__(self) -> None:
        super().__init__(Memory(rest=Rest(wake=WOKEN, wakes=1)))
        self.operator, router = CollectorRegistry(), RouterMetrics()
        ProcessCollector(registry=self.operator)
        self.router, self.lines = router, list[str]()
        self.exported = Exported(self.operator, clock=lambda: self.now_s)
        self.exported.leader.set(1)
        self.exported.queue_depth.set(0)
        self.exported.reconciles.labels(result="error").inc()
        self.pool: Pool | None = None
        self.shown: ShownPool | None = None
        self.now_s = self.next_scrape_s = self.judged = 0
        router.watch(
            fleet=EnginePods(lambda: 0.0),
            queued=lambda: len(self._whole.router.queue),
            held=lambda: 0,
            generation=lambda: 1,
            marks=lambda: 0,
            busy_share=lambda: 0.1,
        )
        router.retries.labels(FailureReason.REFUSED.value)
        router.decode_only.labels(DecodeOnly.OVERFLOW.value)

    @property
    def _whole(self) -> Pool:
        assert self.pool is not None
        return self.pool

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return one pass, as the loop of the operator makes and shows it."""
        answer = super().tick(spec, observation, now_s)
        self.now_s = now_s
        ready = [pod.role for pod in observation.pods if pod.phase is PodPhase.READY]
        self.shown = ShownPool(
            namespace=NAMESPACE,
            pool=POOL,
            conditions=[_condition(kind) for kind in ConditionType],
            policy=spec,
            decision=self.decisions[-1],
            ready={role.value: ready.count(role) for role in Role},
            gpus_held=len(observation.pods),
            cost=Cost(per_gpu_hour="2.49", currency="EUR"),
            age_s=1.0,
            at_s=now_s,
        )
        self.exported.show(self.shown)
        self.exported.reconciles.labels(result="success").inc()
        self.exported.reconcile_seconds.observe(0.02)
        if now_s >= self.next_scrape_s:
            self.next_scrape_s = now_s + SCRAPE_S
            self._scrape(spec)
        return answer

    def _scrape(self, spec: PoolSpec) -> None:
        ended = self._whole.ended
        for flight in ended[self.judged :]:
            verdict, ending = found(flight, spec.slo), flight.ending or Ending.FAILED
            self.router.finish(
                verdict,
                blame(verdict, ending, usual={}),
                prompt_tokens=flight.request.prompt_tokens,
                cached_tokens=flight.cached_tokens,
                output_tokens=flight.made,
            )
        self.judged = len(ended)
        for registry, target in ((self.operator, OPERATOR), (self.router.registry, ROUTER)):
            for family in registry.collect():
                for one in family.samples:
                    # As with `honor_labels: true`.
                    self._add(one.name, target | one.labels, one.value)
            self._add("up", target, 1.0)
            self._add("scrape_duration_seconds", target, 0.01)

    def _add(self, name: str, labels: dict[str, str], value: float) -> None:
        chosen = ",".join(f'{label}="{labels[label]}"' for label in sorted(labels))
        self.lines.append(f"{name}{{{chosen}}} {value!r} {self.now_s:.3f}")


def _condition(kind: ConditionType) -> Condition:
    bad = (ConditionType.STALLED, ConditionType.CAPACITY_BLOCKED, ConditionType.FIELD_CONFLICT)
    return Condition(
        type=kind,
        status="False" if kind in bad else "True",
        observed_generation=1,
        last_transition_time="2026-09-21T14:13:20Z",
        reason="Because",
        message="It is so.",
    )


def scraped() -> str:
    """Return all scrapes, as a text that `promtool tsdb create-blocks-from openmetrics` reads."""
    return "\n".join((*_by_series(_run().lines), "# EOF", ""))


def last_shown() -> ShownPool:
    """Return the operator's view of a pool at the end of the story."""
    shown = _run().shown
    assert shown is not None
    return shown


def _run() -> Scraped:
    policy = Scraped()
    trace = told(PHASES, seed=1)
    setup = PoolSetup(name="pool", spec=SPEC, trace=trace, profile=ENGINE, start=ONE_EACH)
    run = Simulation(
        Scenario(pools=(setup,), cold_start=ColdStart(40.0, 0.2), least_s=END_S - BEGIN_S),
        {"pool": policy},
    )
    policy.pool = run.pool("pool")
    run.run()
    return policy


def _by_series(lines: Iterable[str]) -> list[str]:
    """Return the lines of one series side by side, as OpenMetrics wants them."""
    return sorted(lines, key=lambda line: (line[: line.index("}")], float(line.rsplit(" ", 1)[1])))
