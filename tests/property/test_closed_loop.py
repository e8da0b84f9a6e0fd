"""The same rules in a living pool: random specs, loads and outages, decisions carried out."""

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tests.property.observations import specs
from tests.simulation.fake_pool import Engine, FakePool, Phase

ENGINE = Engine(start_s=(10.0, 25.0))


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


class Watched(FakePool):
    """A pool that checks every decision before it is carried out."""

    outages: frozenset[int] = frozenset()

    def tick(self, change: object = None) -> Decision:
        before = dict(self.replicas)
        blind = len(self.decisions) in self.outages
        self.memory = Memory.from_json(self.memory.to_json())
        decision = super().tick(without_routers if blind else lambda seen: seen)
        for role, plan in decision.roles.items():
            bounds = self.spec.roles[role]
            assert plan.current == before[role]
            assert 1 <= plan.to <= bounds.max_replicas
            if blind and before[role] <= bounds.max_replicas:
                assert plan.to >= before[role] or "gpuBudget" in plan.limits_hit
        if self.spec.gpu_budget is not None:
            held = sum(self.spec.roles[p.role].gpus_per_replica for p in self.pods)
            assert held <= self.spec.gpu_budget
        return decision


def without_routers(seen: Observation) -> Observation:
    return replace(seen, routers=())


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(stories())
def test_a_living_pool_keeps_bounds_budget_and_caution(story: Story) -> None:
    pool = Watched(story.spec, ENGINE, seed=story.seed)
    pool.outages = story.outages

    pool.run(list(story.phases))

    assert all(pool.replicas[role] >= 1 for role in Role)
