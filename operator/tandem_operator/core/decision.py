"""What the core answers: how many replicas of each role, and why, in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_operator.core.objective.error_budget import BudgetLeft
from tandem_operator.core.observation import Quantiles
from tandem_operator.core.quota.share import Share
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace


class Reason(StrEnum):
    """Why a role's count is what it is; stable, documented, one per role and decision."""

    INITIAL = "Initial"
    STEADY = "Steady"
    PREDICTED_TTFT = "PredictedTTFT"
    OBSERVED_TTFT = "ObservedTTFT"
    PREDICTED_TPOT = "PredictedTPOT"
    OBSERVED_TPOT = "ObservedTPOT"
    KV_CAPACITY = "KVCapacity"
    RECURRING_BURSTS = "RecurringBursts"
    SPARE_CAPACITY = "SpareCapacity"
    STABILIZING = "Stabilizing"
    NEW_TRAFFIC = "NewTraffic"
    STARTING_PODS = "StartingPods"
    AT_BOUND = "AtBound"
    GPU_BUDGET = "GPUBudget"
    NAMESPACE_QUOTA = "NamespaceQuota"
    STALE_METRICS = "StaleMetrics"
    CAPACITY_BLOCKED = "CapacityBlocked"
    REPLACING_PODS = "ReplacingPods"
    NODE_DRAIN = "NodeDrain"
    NOT_MANAGED = "NotManaged"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True)
class RoleDecision:
    """One role's part of a decision. `to` is what Tandem would set; `wanted` is before limits."""

    role: Role
    current: int
    to: int
    wanted: int
    reason: Reason
    sentence: str
    capacity_rps: float | None = None
    utilization: float | None = None
    limits_hit: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attainment:
    """How the recent window went against the SLO. Rates per second; `None` where nothing ended."""

    window_s: float
    attainment: float | None
    goodput_rps: float | None
    output_tokens_per_s: float | None
    ttft: Quantiles
    tpot: Quantiles
    blame: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Decision:
    """One tick's answer for one pool.

    Attributes:
        fresh: whether the metrics were fresh enough to act on; the sentence says what was missing.
        drain_blocked: why a node that is being emptied has to keep the last pod of a role.
        slo_feasible: `None` while unknown; `False` with `feasible_ttft_s` / `feasible_tpot_s`
            naming the bound that could be met.
        inputs: the numbers behind the decision, rounded for people.
        next_tick_s: how long to wait before the next tick.
        share: the pool's part of its namespace's quota; `None` where there is no quota.
        pace: what the routers should know of a decode replica; `None` while nothing is known.
        budget: what is left of the objective's error budget, and how fast it is spent.
    """

    at_s: float
    roles: Mapping[Role, RoleDecision]
    sentence: str
    fresh: bool
    fresh_message: str
    capacity_blocked: str | None
    drain_blocked: str | None
    slo_feasible: bool | None
    feasible_ttft_s: float | None
    feasible_tpot_s: float | None
    recent: Attainment
    inputs: Mapping[str, float]
    next_tick_s: float
    share: Share | None = None
    pace: TimedDecodePace | None = None
    budget: BudgetLeft = field(default_factory=BudgetLeft)
