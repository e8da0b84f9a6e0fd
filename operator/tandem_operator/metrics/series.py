"""Every series that the operator exports, as data: the exporter and the reference read this table.

Names follow Prometheus: base units at the end, `_total` on counters. A role is a label.
"""

from dataclasses import dataclass
from enum import StrEnum

POOL = ("namespace", "pool")
ROLE = (*POOL, "role")


class SeriesKind(StrEnum):
    """The way in which a series changes."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # hashed in each pass, by identity
class MetricSeries:
    """One name on the operator's `/metrics`, with all facts that a reader needs.

    Attributes:
        unit: unit of its values, in words for people; `1` if only its labels have a meaning.
        labels: labels besides those of Prometheus; with `pool`, it goes when the pool goes.
    """

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    kind: SeriesKind = SeriesKind.GAUGE

    @property
    def of_pool(self) -> bool:
        """Return whether it goes when a pool goes."""
        return "pool" in self.labels


def _of_pool(name: str, unit: str, meaning: str, *more: str) -> MetricSeries:
    return MetricSeries(name=name, unit=unit, meaning=meaning, labels=(*POOL, *more))


def _of_role(name: str, unit: str, meaning: str, *more: str) -> MetricSeries:
    return _of_pool(name, unit, meaning, "role", *more)


SLO_TTFT = _of_pool(
    "tandem_pool_slo_ttft_target_seconds", "seconds", "TTFT bound of a request without a prompt"
)
SLO_TTFT_PER_THOUSAND = _of_pool(
    "tandem_pool_slo_ttft_per_thousand_prompt_tokens_seconds",
    "seconds",
    "Time that 1,000 prompt tokens add to the TTFT bound",
)
SLO_TPOT = _of_pool(
    "tandem_pool_slo_tpot_target_seconds", "seconds", "Bound of the time per output token"
)
SLO_OBJECTIVE = _of_pool(
    "tandem_pool_slo_objective_ratio", "share", "Share of requests that must keep both bounds"
)
MIN_REPLICAS = _of_role(
    "tandem_pool_min_replicas",
    "replicas",
    "Fewest replicas that the spec and its schedules allow now",
)
MAX_REPLICAS = _of_role(
    "tandem_pool_max_replicas", "replicas", "Most replicas that the spec allows"
)
GPU_BUDGET = _of_pool(
    "tandem_pool_gpu_budget", "GPUs", "`scaling.gpuBudget`; absent if the spec has none"
)
MODE = _of_pool("tandem_pool_mode", "1", "`scaling.mode`: Auto, Recommend or Paused", "mode")

DESIRED = _of_role("tandem_pool_desired_replicas", "replicas", "Replicas that Tandem would set")
READY = _of_role("tandem_pool_ready_replicas", "replicas", "Ready engine pods")
CAPACITY = _of_role(
    "tandem_pool_capacity_requests_per_second",
    "requests per second",
    "Load that the Ready replicas can serve inside the SLO",
)
UTILIZATION = _of_role(
    "tandem_pool_utilization_ratio", "share", "Arriving requests as a share of the capacity"
)
COLD_START = _of_role(
    "tandem_pool_cold_start_seconds", "seconds", "P90 of the time from a new pod until it is Ready"
)
MODEL_ERROR = _of_role(
    "tandem_pool_model_error_ratio", "share", "Error of the learned latency model"
)
GPUS_HELD = _of_pool(
    "tandem_pool_gpus_held", "GPUs", "GPUs of scheduled engine pods; a pod on CPU counts as one"
)
GPU_SECONDS = MetricSeries(
    name="tandem_pool_gpu_seconds_total",
    unit="GPU-seconds",
    meaning="GPU-seconds that the pool has held since the operator started",
    labels=POOL,
    kind=SeriesKind.COUNTER,
)
GPU_HOUR_COST = _of_pool(
    "tandem_pool_gpu_hour_cost",
    "the currency",
    "`cost.perGPUHour`; absent if the spec has none",
    "currency",
)

REST = _of_pool(
    "tandem_pool_rest",
    "1",
    "Whether the pool is awake, asleep or waking; absent without `scaling.scaleToZeroAfter`",
    "state",
)
WAKES = _of_pool("tandem_pool_wakes", "wakes", "Times that requests woke the pool from zero")
WAKE_SECONDS = _of_pool(
    "tandem_pool_last_wake_seconds",
    "seconds",
    "Time of the latest wake by part: noticed, scheduled, started or first_token",
    "part",
)

ARRIVALS = _of_pool(
    "tandem_pool_arrival_requests_per_second", "requests per second", "Rate of arrivals now"
)
FORECAST = _of_pool(
    "tandem_pool_forecast_requests_per_second",
    "requests per second",
    "Highest forecast of the mean rate within one cold start",
)
FORECAST_HIGH = _of_pool(
    "tandem_pool_forecast_high_requests_per_second",
    "requests per second",
    "The same in the high case of the forecast, which Tandem also plans for",
)

ATTAINMENT = _of_pool(
    "tandem_pool_attainment_ratio",
    "share",
    "Share of good requests among those that ended recently",
)
GOODPUT = _of_pool(
    "tandem_pool_goodput_requests_per_second", "requests per second", "Good requests per second"
)
TTFT = _of_pool("tandem_pool_ttft_seconds", "seconds", "TTFT of recent requests", "quantile")
TPOT = _of_pool(
    "tandem_pool_tpot_seconds", "seconds", "Time per output token of recent requests", "quantile"
)
BUDGET_REMAINING = _of_pool(
    "tandem_pool_error_budget_remaining_ratio",
    "share",
    "Part of the error budget that is left, over 1h and 30d; below 0 it is overspent",
    "window",
)
BURN_RATE = _of_pool(
    "tandem_pool_error_budget_burn_rate",
    "times",
    "Burn rate of the error budget over the window; at 1 the pool spends exactly its budget."
    " Absent while fewer than 20 requests ended in the window",
    "window",
)
LATE_REQUESTS = _of_pool(
    "tandem_pool_late_requests",
    "requests",
    "Late or failed requests of the window, without those that waited for a wake",
    "window",
)

DECISION_REASON = _of_role(
    "tandem_decision_reason", "1", "Reason for the present count of a role", "reason"
)
DECISIONS = MetricSeries(
    name="tandem_decisions_total",
    unit="decisions",
    meaning="Decisions by reason; a pool has one in each pass",
    labels=(*ROLE, "reason"),
    kind=SeriesKind.COUNTER,
)
LIMIT_HIT = _of_role(
    "tandem_pool_limit_hit",
    "1",
    "1 if a limit, such as maxReplicas or gpuBudget, holds the count below the need of the load",
    "limit",
)
CONDITION = _of_pool(
    "tandem_pool_condition",
    "1 or 0",
    "1 if the condition has this status: true, false or unknown",
    "condition",
    "status",
)
METRICS_AGE = _of_pool("tandem_metrics_age_seconds", "seconds", "Age of the oldest engine sample")
LAST_PASS = _of_pool(
    "tandem_pool_last_pass_timestamp_seconds",
    "seconds since the epoch",
    "End of the last pass; the other series of the pool are as old",
)

BUILD_INFO = MetricSeries(
    name="tandem_build_info", unit="1", meaning="Version of the operator", labels=("version",)
)
LEADER = MetricSeries(name="tandem_leader", unit="1 or 0", meaning="1 if this process acts")
QUEUE_DEPTH = MetricSeries(name="tandem_queue_depth", unit="pools", meaning="Pools due for a pass")
RECONCILES = MetricSeries(
    name="tandem_reconcile_total",
    unit="passes",
    meaning="Passes (reconciliations) over pools, by result: success or error",
    labels=("result",),
    kind=SeriesKind.COUNTER,
)
RECONCILE_SECONDS = MetricSeries(
    name="tandem_reconcile_seconds",
    unit="seconds",
    meaning="Duration of a pass",
    kind=SeriesKind.HISTOGRAM,
)
CONFLICTS = MetricSeries(
    name="tandem_apply_conflicts_total",
    unit="fields",
    meaning="Fields of which Tandem found another field manager",
    kind=SeriesKind.COUNTER,
)
WATCH_RESTARTS = MetricSeries(
    name="tandem_watch_restarts_total",
    unit="restarts",
    meaning="Restarts of broken watches",
    kind=SeriesKind.COUNTER,
)

SERIES: tuple[MetricSeries, ...] = tuple(
    each for each in list(vars().values()) if isinstance(each, MetricSeries)
)
