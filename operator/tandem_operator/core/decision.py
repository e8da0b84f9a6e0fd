"""The result of a decision: how many replicas of each role, and why, in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tandem_operator.core.objective.error_budget import BudgetLeft
from tandem_operator.core.objective.rest import Rest
from tandem_operator.core.observation import ClassWindow, Quantiles, TenantWindow
from tandem_operator.core.quota.share import Share
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import Called
from tandem_operator.core.sizing.decode_speed import TimedDecodePace


class Reason(StrEnum):
    """The cause of a role's count; stable, documented, one per role and decision."""

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
    ASLEEP = "Asleep"
    WAKING = "Waking"
    FREQUENT_WAKES = "FrequentWakes"
    SCHEDULE = "Schedule"


@dataclass(frozen=True, slots=True)
class RoleDecision:
    """One role's part of a decision. Tandem would set `to`; `wanted` is the count before limits."""

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
    """The recent window against the SLO. Rates per second; `None` if no request ended.

    Attributes:
        classes, tenants: all requests, by each of them; the other fields cover only guaranteed
            requests.
    """

    window_s: float
    attainment: float | None
    goodput_rps: float | None
    output_tokens_per_s: float | None
    ttft: Quantiles
    tpot: Quantiles
    blame: Mapping[str, int]
    classes: tuple[ClassWindow, ...] = ()
    tenants: tuple[TenantWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of one tick for one pool.

    Attributes:
        fresh: whether the metrics were fresh enough to act; the sentence names missing ones.
        drain_blocked: why a node that is being drained must keep the last pod of a role.
        slo_feasible: `None` while unknown; `False` with `feasible_ttft_s` / `feasible_tpot_s`
            as the smallest bound that could be kept.
        inputs: the numbers behind the decision, rounded for people.
        next_tick_s: time until the next tick.
        share: the pool's part of its namespace's quota; `None` without a quota.
        pace: the speed of a decode replica for the routers; `None` while unknown.
        budget: the rest of the error budget, and how fast it is spent.
        rest: for a pool that may go to zero: whether it sleeps, and its latest wake.
        called: what schedules ask for now.
        wake_s: how long a request at a sleeping pool has to wait; `None`: requests are not held.
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
    rest: Rest = field(default_factory=Rest)
    called: Called = field(default_factory=Called)
    wake_s: float | None = None
