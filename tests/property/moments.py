"""Moments of pools that really lived: what was seen, remembered and decided at every tick.

Random observations hardly ever teach a model enough to size with. These moments come from
simulated pools with the live core in the loop, so that rules are tried where decisions are made:
while a fleet grows, gives back, waits for pods, or is short of GPUs.
"""

from dataclasses import dataclass, replace
from functools import cache

from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.faults import CapacityBlocked, Fault
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import PolicyAnswer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.simulate import Scenario, Simulation
from tests.simulation.stories import ENGINE, ONE_EACH, Phase, told
from tests.unit.core.scene import make_spec


@dataclass(frozen=True, repr=False)
class Moment:
    """One tick: what the core was given, and what it answered."""

    spec: PoolSpec
    seen: Observation
    memory: Memory
    now_s: float
    decision: Decision

    def decide(
        self, *, spec: PoolSpec | None = None, seen: Observation | None = None
    ) -> tuple[Decision, Memory]:
        """Return the same moment under another spec, or with something else seen."""
        return decide(spec or self.spec, seen or self.seen, self.memory, self.now_s)


class Recorder(Tandem):
    """The live core, taking notes."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Moment] = []

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        memory = self.memory
        answer = super().tick(spec, observation, now_s)
        self.moments.append(Moment(spec, observation, memory, now_s, self.decisions[-1]))
        return answer


SPEC = make_spec(ttft_s=1.5, tpot_s=0.025, high=6, stabilization_s=10.0)
LIFE = (
    Phase("light", 60, 1.0, 200, 60),
    Phase("prompts", 100, 3.0, 1200, 20),
    Phase("answers", 100, 2.5, 100, 200),
    Phase("rest", 60, 0.3, 100, 40),
)
LIVES: tuple[tuple[PoolSpec, tuple[Fault, ...]], ...] = (
    (SPEC, ()),
    (replace(SPEC, gpu_budget=4), ()),
    (SPEC, (CapacityBlocked(80.0, 200.0),)),
)


@cache
def life(index: int) -> tuple[Moment, ...]:
    """Return all moments of one pool."""
    spec, faults = LIVES[index]
    recorder = Recorder()
    setup = PoolSetup(
        name="pool",
        spec=spec,
        trace=told(list(LIFE), seed=index + 1),
        profile=ENGINE,
        start=ONE_EACH,
    )
    scenario = Scenario(
        pools=(setup,), cold_start=ColdStart(25.0, 0.2), faults=faults, seed=index + 1
    )
    Simulation(scenario, {"pool": recorder}).run()
    return tuple(recorder.moments)


moments = st.builds(
    lambda index, share: life(index)[int(share * len(life(index)))],
    st.integers(0, len(LIVES) - 1),
    st.floats(0.0, 1.0, exclude_max=True),
)
# Moments at which the core knows enough to size with.
sized = moments.filter(lambda moment: moment.decision.slo_feasible is not None)


def wanted(decision: Decision) -> dict[Role, int]:
    return {role: plan.wanted for role, plan in decision.roles.items()}
