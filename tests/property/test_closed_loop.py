"""The same rules in a living pool: random specs, loads and faults, decisions carried out."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.faults import (
    CapacityBlocked,
    Fault,
    MetricsGone,
    SlowPod,
    SlowStarts,
)
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import PolicyAnswer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.observations import insurances
from tests.simulation.stories import ENGINE, Phase, told

NEW_POD_S, FRESH_S = 30.0, 35.0


@dataclass(frozen=True)
class Story:
    spec: PoolSpec
    phases: tuple[Phase, ...]
    faults: tuple[Fault, ...]
    delay_s: float
    seed: int


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    at_s = draw(st.sampled_from([20.0, 80.0, 150.0]))
    until_s = at_s + draw(st.sampled_from([15.0, 60.0, 150.0]))
    role = draw(st.sampled_from(list(Role)))
    silent = MetricsGone(at_s, until_s, routers=False, engine_share=0.3)
    kinds = (
        MetricsGone(at_s, until_s),
        silent,
        CapacityBlocked(at_s, until_s),
        SlowStarts(at_s, until_s, 4.0),
        SlowPod(at_s, until_s, role, 2.5),
    )
    return draw(st.sampled_from(kinds))


@st.composite
def scarce_specs(draw: st.DrawFn) -> PoolSpec:
    """Draw pools that must grow: they begin with the least, and may have many more."""
    bounds = {
        role: RoleSpec(draw(st.integers(1, 2)), draw(st.integers(3, 6)), gpus, managed=True)
        for role in Role
        for gpus in (draw(st.sampled_from([1, 1, 2])),)
    }
    least = sum(b.min_replicas * b.gpus_per_replica for b in bounds.values())
    return PoolSpec(
        slo=Slo(draw(st.sampled_from([0.5, 1.5])), 0.1, 0.025, draw(st.sampled_from([0.9, 0.99]))),
        roles=bounds,
        mode=Mode.AUTO,
        gpu_budget=draw(st.none() | st.integers(least, least + 4)),
        stabilization_s=10.0,
        max_step=draw(st.sampled_from([None, None, 1])),
        max_model_len=4096,
        max_num_seqs=64,
        insurance=draw(insurances),
    )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Draw a busy time, another, and a rest in which replicas are given back."""
    kinds = st.sampled_from([(3.0, 1500, 20), (2.0, 100, 250), (5.0, 800, 60), (1.0, 100, 20)])
    phases = [
        Phase(str(index), 80.0, *draw(kinds), burst=draw(st.sampled_from([1, 1, 4])))
        for index in range(2)
    ]
    return Story(
        spec=draw(scarce_specs()),
        phases=(*phases, Phase("rest", 60.0, draw(st.sampled_from([0.0, 0.5])), 50, 20)),
        faults=tuple(draw(st.lists(faults(), max_size=1))),
        delay_s=draw(st.sampled_from([0.0, 0.0, 4.0])),
        seed=draw(st.integers(0, 1000)),
    )


class Watched(Tandem):
    """The core, with every decision checked before it is carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.restarted = Memory()

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        self.restarted = memory_from_json(memory_to_json(self.restarted))
        again, self.restarted = decide(spec, observation, self.restarted, now_s)
        answer = super().tick(spec, observation, now_s)
        decision = self.decisions[-1]
        assert again == decision, "a restart before this tick would have changed it"
        keeps_bounds(spec, observation, decision)
        keeps_budget(spec, observation, decision)
        acts_on_what_it_sees(spec, observation, decision, now_s)
        explains(decision)
        return answer


def keeps_bounds(spec: PoolSpec, seen: Observation, decision: Decision) -> None:
    for role, plan in decision.roles.items():
        bounds = spec.roles[role]
        assert plan.current == seen.replicas[role]
        assert 1 <= plan.to <= bounds.max_replicas
        assert plan.to >= bounds.min_replicas or "gpuBudget" in plan.limits_hit
        if spec.max_step is not None and plan.current >= bounds.min_replicas:
            inside = plan.current <= bounds.max_replicas and "gpuBudget" not in plan.limits_hit
            assert abs(plan.to - plan.current) <= spec.max_step or not inside


def keeps_budget(spec: PoolSpec, seen: Observation, decision: Decision) -> None:
    if spec.gpu_budget is None:
        return
    each = {role: spec.roles[role].gpus_per_replica for role in Role}
    held = sum(each[pod.role] for pod in seen.pods)
    assert held <= spec.gpu_budget
    growth = 0
    for role, plan in decision.roles.items():
        alive = [p for p in seen.pods if p.role is role and p.phase is not PodPhase.TERMINATING]
        growth += each[role] * max(0, plan.to - len(alive))
    # What shrinks in the same tick still holds its GPUs: growth must not count on it.
    assert held + growth <= spec.gpu_budget


def acts_on_what_it_sees(
    spec: PoolSpec, seen: Observation, decision: Decision, now_s: float
) -> None:
    heard = {s.pod for s in seen.engines if now_s - s.sampled_s <= FRESH_S}
    settled = [
        pod.name
        for pod in seen.pods
        if pod.phase is PodPhase.READY
        and (pod.name in heard or now_s - (pod.ready_s or 0.0) > NEW_POD_S)
    ]
    silent = [name for name in settled if name not in heard]
    blind = not any(now_s - r.sampled_s <= FRESH_S for r in seen.routers)
    for role, plan in decision.roles.items():
        bounds = spec.roles[role]
        outside = not bounds.min_replicas <= plan.current <= bounds.max_replicas
        if outside or "gpuBudget" in plan.limits_hit:
            continue
        if blind or silent:
            assert plan.to >= plan.current
        if blind or 3 * len(silent) > len(settled):
            assert plan.to == plan.current
            assert plan.reason is Reason.STALE_METRICS


def explains(decision: Decision) -> None:
    for role, plan in decision.roles.items():
        assert plan.sentence.startswith(role.value)
        assert plan.reason is not Reason.STEADY or plan.to == plan.current


# A story is as long as dozens of moments.
@settings(max_examples=max(4, settings.default.max_examples // 4))
@given(stories())
def test_a_living_pool_keeps_every_rule_and_loses_no_request(story: Story) -> None:
    spec, policy = story.spec, Watched()
    start = {role: bounds.min_replicas for role, bounds in spec.roles.items()}
    setup = PoolSetup(
        name="pool",
        spec=spec,
        trace=told(list(story.phases), seed=story.seed),
        profile=ENGINE,
        start=start,
        faults=story.faults,
        metric_delay_s=story.delay_s,
    )
    scenario = Scenario(
        pools=(setup,),
        cold_start=ColdStart(16.0, 0.3),
        faults=tuple(f for f in story.faults if isinstance(f, CapacityBlocked | SlowStarts)),
        seed=story.seed,
        least_s=sum(phase.seconds for phase in story.phases),
    )
    run = Simulation(scenario, {"pool": policy})

    report = run.run()["pool"]

    assert report.failed == 0
    assert report.unfinished == 0
    assert all(min(moment.asked.values()) >= 1 for moment in report.moments)
    if spec.gpu_budget is not None:
        assert run.cluster.most_held <= spec.gpu_budget
