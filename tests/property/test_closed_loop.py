"""The same rules in a living pool: random specs, loads and outages, decisions carried out."""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.sim.pods import ColdStart
from tandem_operator.sim.policy import Answer, Tandem
from tests.property.observations import specs
from tests.simulation.stories import Phase, play


@dataclass(frozen=True)
class Story:
    spec: PoolSpec
    phases: tuple[Phase, ...]
    outages: frozenset[int]
    seed: int


@st.composite
def stories(draw: st.DrawFn) -> Story:
    phases = tuple(
        Phase(
            name=str(index),
            seconds=draw(st.sampled_from([30.0, 60.0, 150.0])),
            rate_rps=draw(st.sampled_from([0.0, 1.0, 3.0, 6.0])),
            prompt_tokens=draw(st.sampled_from([50, 400, 1500])),
            output_tokens=draw(st.sampled_from([5, 60, 200])),
            burst=draw(st.sampled_from([1, 1, 4])),
        )
        for index in range(2)
    )
    outages = frozenset(draw(st.lists(st.integers(0, 50), max_size=6)))
    spec = replace(draw(specs()), mode=Mode.AUTO)
    spec = replace(spec, roles={r: replace(b, managed=True) for r, b in spec.roles.items()})
    return Story(spec, phases, outages, draw(st.integers(0, 1000)))


class Watched(Tandem):
    """The core, with every decision checked before it is carried out."""

    def __init__(self, outages: frozenset[int]) -> None:
        super().__init__()
        self.outages = outages

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> Answer:
        blind = len(self.decisions) in self.outages
        self.memory = Memory.from_json(self.memory.to_json())
        before = observation.replicas
        if spec.gpu_budget is not None:
            held = sum(spec.roles[pod.role].gpus_per_replica for pod in observation.pods)
            assert held <= spec.gpu_budget
        answer = super().tick(
            spec, replace(observation, routers=()) if blind else observation, now_s
        )
        for role, plan in self.decisions[-1].roles.items():
            bounds = spec.roles[role]
            assert plan.current == before[role]
            assert 1 <= plan.to <= bounds.max_replicas
            if blind and before[role] <= bounds.max_replicas:
                assert plan.to >= before[role] or "gpuBudget" in plan.limits_hit
        return answer


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stories())
def test_a_living_pool_keeps_bounds_budget_and_caution(story: Story) -> None:
    results = play(
        story.spec,
        list(story.phases),
        seed=story.seed,
        policy=Watched(story.outages),
        starts=ColdStart(16.0, 0.3),
    )

    assert all(results[phase.name].end[role] >= 1 for phase in story.phases for role in Role)
