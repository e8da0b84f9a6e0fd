"""Tandem behind the simulator's `scaling_policy`: the operator's own `decide`, unchanged."""

from collections.abc import Mapping
from typing import Any

from benchmarks.other_routers import tuning_for
from benchmarks.replay.setup import MAX_NUM_SEQS, Setup
from benchmarks.replay.sight import EPOCH_S, Sight
from tandem_operator.api import duration_s
from tandem_operator.api.v1alpha1.scaling import Scaling
from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.traces.trace import Trace

LOOK_S = 0.1
ATTAINMENT = 0.95
# The simulator's router knows no other way.
IN_TURN = tuning_for(in_turn=True, deadline_order=False)


class Tandem:
    """A scaling policy of the simulator that knows what a live operator would know."""

    def __init__(self, trace: Trace, setup: Setup) -> None:
        self.sight = Sight(trace.requests, setup)
        self.decisions: list[Decision] = []
        self._spec = pool_spec(setup)
        self._memory = Memory()
        self._replicas: dict[Role, int] = {}
        self._due_s = 0.0

    def initial_tick_ms(self) -> float:
        """Return the time of the simulator's first question."""
        return LOOK_S * 1000.0

    def on_tick(self, snapshot: Mapping[str, Any]) -> dict[str, float]:
        """Look; decide when a decision is due."""
        now_s = snapshot["now_ms"] / 1000.0
        if not self._replicas:
            self._replicas = {r: snapshot[f"non_draining_{r.value}_count"] for r in Role}
        self.sight.take(snapshot)
        if now_s >= self._due_s - 1e-6:
            self._decide(now_s)
        return {
            "target_prefill": self._replicas[Role.PREFILL],
            "target_decode": self._replicas[Role.DECODE],
            "next_tick_ms": snapshot["now_ms"] + LOOK_S * 1000.0,
        }

    def telemetry(self, sample: Mapping[str, Any]) -> None:
        """Note what the engines' metrics say of their prefix caches."""
        interval = sample["prefill_interval_metrics"]
        self.sight.cached(
            hit_tokens=interval["cache_hit_tokens"],
            looked_up_tokens=interval["cache_total_tokens"],
        )

    def _decide(self, now_s: float) -> None:
        observation = self.sight.observation(self._replicas)
        decision, self._memory = decide(
            self._spec, observation, self._memory, EPOCH_S + now_s, tuning=IN_TURN
        )
        self._replicas = {role: plan.to for role, plan in decision.roles.items()}
        self._due_s = now_s + decision.next_tick_s
        self.decisions.append(decision)


def pool_spec(setup: Setup) -> PoolSpec:
    """Return a user's spec: the SLO, bounds and a budget; the API's defaults for all else."""
    bounds = RoleSpec(
        min_replicas=1, max_replicas=setup.gpu_budget, gpus_per_replica=1, managed=True
    )
    return PoolSpec(
        slo=Slo(
            ttft_s=setup.ttft_s,
            ttft_s_per_thousand_prompt_tokens=0.0,
            tpot_s=setup.itl_s,
            attainment=ATTAINMENT,
        ),
        roles=dict.fromkeys(Role, bounds),
        mode=Mode.AUTO,
        gpu_budget=setup.gpu_budget,
        stabilization_s=duration_s(Scaling().stabilization),
        max_step=None,
        max_model_len=setup.max_model_len,
        max_num_seqs=MAX_NUM_SEQS,
    )
