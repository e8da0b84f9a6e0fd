"""Two pools of one namespace share too few GPUs, and never hold too many."""

from dataclasses import dataclass, replace
from itertools import pairwise

from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.policy import EPOCH_S, Namespace, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix, Rate, constant, poisson, step
from tests.simulation.stories import CHAT, QUICK, attainment
from tests.unit.core.scene import make_spec

SPEC = replace(
    make_spec(ttft_s=0.8, tpot_s=0.02, high=12, stabilization_s=60.0), max_model_len=32_768
)


@dataclass(frozen=True)
class Load:
    """One pool's traffic and how important it is."""

    rate: Rate
    priority: int = 0
    mix: Mix = CHAT
    seed: int = 11
    spec: PoolSpec = SPEC
    start: int = 1


@dataclass(frozen=True)
class Run:
    reports: dict[str, PoolReport]
    ended: dict[str, list[SimulatedFlight]]
    decisions: dict[str, list[Decision]]
    most_held: int

    def attainment(self, pool: str, begin_s: float, end_s: float) -> float:
        return attainment(self.ended[pool], begin_s, end_s, slo=SPEC.slo)

    def asked(self, pool: str, at_s: float) -> int:
        """Return the GPUs that the pool asks for at the last tick until then."""
        return sum([m.asked for m in self.reports[pool].moments if m.at_s <= at_s][-1].values())

    def told(self, pool: str, begin_s: float, end_s: float) -> list[Decision]:
        return [d for d in self.decisions[pool] if begin_s <= d.at_s - EPOCH_S <= end_s]


def share(gpus: int, loads: dict[str, Load], *, span_s: float) -> Run:
    setups, policies, namespace = [], {}, Namespace(gpus)
    for name, load in loads.items():
        trace = poisson(name, load.rate, most_rps=30.0, span_s=span_s, mix=load.mix, seed=load.seed)
        spec = replace(load.spec, priority=load.priority)
        start = dict.fromkeys(Role, load.start)
        setups.append(PoolSetup(name=name, spec=spec, trace=trace, profile=QUICK, start=start))
        policies[name] = Tandem(pool=name, namespace=namespace)
    # The cluster itself has GPUs for all: only the sharing keeps pools inside the quota.
    run = Simulation(
        Scenario(
            pools=tuple(setups), cold_start=ColdStart(40.0, 0.1), least_s=span_s, patience_s=300.0
        ),
        policies,
    )
    reports = run.run()
    ended = {name: run.pool(name).ended for name in loads}
    return Run(reports, ended, {n: p.decisions for n, p in policies.items()}, run.cluster.most_held)


def test_the_higher_priority_keeps_its_slo_when_both_grow() -> None:
    grow = step(5.0, 18.0, at_s=100.0)

    run = share(6, {"batch": Load(grow), "chat": Load(grow, priority=10, seed=12)}, span_s=400.0)

    assert run.most_held <= 6
    assert run.attainment("chat", 200.0, 400.0) >= 0.95
    assert run.asked("batch", 390.0) == 2
    refused = [d.roles[Role.PREFILL] for d in run.told("batch", 200.0, 400.0)]
    assert {each.reason for each in refused} == {Reason.NAMESPACE_QUOTA}
    assert all("namespace quota" in each.limits_hit for each in refused)
    assert {each.sentence for each in refused} == {
        "prefill stays at 1: more replicas would be better; the namespace quota of 6 GPUs is shared"
        " with pool chat (priority 10)"
    }


def test_a_lower_priority_gives_back_what_a_higher_one_needs_and_only_then_it_grows() -> None:
    run = share(
        7,
        {
            "batch": Load(constant(18.0), start=2),
            "chat": Load(step(3.0, 18.0, at_s=150.0), priority=10, seed=12),
        },
        span_s=400.0,
    )

    assert run.asked("batch", 149.0) >= 4
    assert run.asked("batch", 220.0) < run.asked("batch", 149.0)
    assert run.asked("chat", 220.0) > run.asked("chat", 149.0)
    assert run.most_held <= 7
    assert run.attainment("chat", 260.0, 400.0) >= 0.95


def test_of_equals_the_pool_that_serves_more_with_a_gpu_gets_it() -> None:
    documents = replace(CHAT, prompt=Lengths(6000, 0.2, 16, 16_000))

    run = share(
        6,
        {"documents": Load(constant(5.0), mix=documents), "questions": Load(constant(18.0))},
        span_s=250.0,
    )

    # Of two GPUs more, the questions serve eight requests/s more, the documents three.
    assert run.asked("questions", 240.0) == 4
    assert run.asked("documents", 240.0) == 2
    assert run.attainment("questions", 150.0, 250.0) >= 0.95
    assert run.most_held <= 6


def test_equal_pools_under_the_same_even_load_do_not_pass_gpus_to_and_fro() -> None:
    run = share(
        6, {"one": Load(constant(18.0)), "two": Load(constant(18.0), seed=12)}, span_s=400.0
    )

    # Once the first has what it wants, the other has the rest, and so it stays.
    for name in run.reports:
        counts = [run.asked(name, float(at_s)) for at_s in range(100, 400, 5)]
        assert sum(a != b for a, b in pairwise(counts)) <= 1
    assert run.most_held <= 6


def test_gpus_follow_the_load_from_one_equal_pool_to_the_other() -> None:
    run = share(
        7,
        {
            "early": Load(step(18.0, 3.0, at_s=200.0)),
            "late": Load(step(3.0, 18.0, at_s=260.0), seed=12),
        },
        span_s=460.0,
    )

    assert run.asked("early", 190.0) > run.asked("late", 190.0)
    assert run.asked("late", 450.0) > run.asked("early", 450.0)
    assert run.attainment("late", 380.0, 460.0) >= 0.95
    assert run.most_held <= 7
