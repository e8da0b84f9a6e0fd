"""The status of an InferencePool: only what the operator writes, rounded and with units.

Numbers with a fraction are strings, as the Kubernetes API conventions advise: their rounding is
part of the value, so a status that looks the same is the same and is not written again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Extension, ListMap
from tandem_operator.api.v1alpha1.gateway import Hostname

Text = Annotated[str, Field(max_length=64)]
Sentence = Annotated[str, Field(max_length=2048)]
Time = Annotated[str, Field(max_length=40), Extension({"format": "date-time"})]

UNSEEN_GENERATION = -1
"""The API server's value before an operator writes one; an unknown value is `None` here."""


class ConditionType(StrEnum):
    """The conditions of a pool. `True` is good unless the text says otherwise."""

    READY = "Ready"
    """The pool is available, and this generation runs at its minimum."""
    AVAILABLE = "Available"
    """The router answers, and at least one pod of each role is Ready, of any generation."""
    RECONCILING = "Reconciling"
    """This generation does not run at its minimum yet; the message says how far the rollout is."""
    STALLED = "Stalled"
    """True is bad: this generation is refused until a user changes something."""
    ACCEPTED = "Accepted"
    """The spec is valid; else Tandem leaves the running pool unchanged."""
    SLO_MET = "SLOMet"
    """Attainment of the recent window reaches the objective."""
    METRICS_FRESH = "MetricsFresh"
    """Metrics are fresh and complete enough to act on."""
    SCALING_ACTIVE = "ScalingActive"
    """Tandem sets the replica counts itself."""
    CAPACITY_BLOCKED = "CapacityBlocked"
    """True is bad: desired pods cannot start."""
    SLO_FEASIBLE = "SLOFeasible"
    """Enough replicas can keep the SLO; else the message names a bound that they can keep."""
    FIELD_CONFLICT = "FieldConflict"
    """True is bad: another manager owns a field that Tandem would write."""
    ENGINES_HEALTHY = "EnginesHealthy"
    """The routers send requests to every Ready engine pod; else the message names the others."""
    ROUTE_ACCEPTED = "RouteAccepted"
    """Every Gateway of router.gateway takes the pool's route; absent without router.gateway."""


class Condition(ApiModel):
    """One aspect of the pool, as `kubectl wait --for=condition=TYPE` reads it."""

    type: Annotated[str, Field(max_length=64)]
    """Ready, Available, Reconciling, Stalled, Accepted, SLOMet, MetricsFresh, ScalingActive,
    CapacityBlocked, SLOFeasible, FieldConflict, EnginesHealthy or RouteAccepted."""
    status: Annotated[str, Field(max_length=16)]
    """True, False or Unknown."""
    observed_generation: int
    """metadata.generation of the spec that this condition describes."""
    last_transition_time: Time
    """Time when status last changed."""
    reason: Annotated[str, Field(max_length=128)]
    """One CamelCase word for programs."""
    message: Annotated[str, Field(max_length=4096)]
    """One sentence for people."""

    @property
    def kind(self) -> ConditionType | None:
        """The type of the condition; `None` if a newer version wrote it before a rollback."""
        return next((each for each in ConditionType if each == self.type), None)


class RoleStatus(ApiModel):
    """State of one fleet, and its desired count."""

    current: int | None = None
    """Replicas that the Deployment asks for now."""
    ready: int | None = None
    """Pods that are Ready, of this generation and of older ones, as a Deployment counts them."""
    updated: int | None = None
    """Pods of this generation, Ready or not."""
    desired: int | None = None
    """Replicas that Tandem decided on. In mode Recommend or Paused, Tandem does not set them."""
    pending: int | None = None
    """Pods that exist and are not Ready yet, starting or unscheduled."""
    capacity: Text | None = None
    """Requests per second that the current replicas can serve inside the SLO."""
    utilization: Text | None = None
    """Arriving requests as a share of capacity, such as 74.0%."""
    summary: Text | None = None
    """ready/desired, for the printed table."""


class RouterStatus(ApiModel):
    """Number of routers, and their load."""

    current: int | None = None
    """Replicas that the Deployment asks for now."""
    ready: int | None = None
    """Pods that are Ready."""
    desired: int | None = None
    """Replicas that Tandem decided on."""
    busy: Text | None = None
    """Share of a core that the busiest router uses, in tenths, such as 30.0%. A router uses at most
    one core."""


class LatencyStatus(ApiModel):
    """Percentiles of the recent window as the router measured them, such as 412ms."""

    p50: Text | None = None
    """Half of the requests were at most this slow."""
    p95: Text | None = None
    """95% of the requests were at most this slow."""
    p99: Text | None = None
    """99% of the requests were at most this slow."""


class ErrorBudgetStatus(ApiModel):
    """Rest of the error budget: the requests of a window that may still miss a bound.

    Below 0%, more requests missed a bound than allowed. In whole percents; a value stays while the
    share is within one percent of it.
    """

    share: Text | None = None
    """Remaining share of the window's budget, such as 37%. Absent before 20 requests ended in the
    window."""
    window: Text | None = None
    """The window that Tandem plans for, such as 1h."""
    share_30d: Annotated[Text | None, Field(alias="share30d")] = None
    """Remaining share of the budget of 30 days, as far back as the pool is known."""


class ClassStatus(ApiModel):
    """Results of one class in the last two minutes, by the bounds of the class."""

    name: Text
    """Name in spec.slo.classes; default: requests that named no class."""
    attainment: Text | None = None
    """Good requests as a share of all that ended, such as 99.2%."""
    goodput: Text | None = None
    """Good requests per second."""
    good_tokens: Text | None = None
    """Output tokens of good requests per second."""
    queued: int | None = None
    """Requests that wait in the routers."""


class SloStatus(ApiModel):
    """Results of the recent window against the SLO."""

    ttft: LatencyStatus | None = None
    """Time from the whole request at the router to the first generated token sent."""
    tpot: LatencyStatus | None = None
    """Mean time between a request's output tokens after the first."""
    attainment: Text | None = None
    """Share of good requests among all that finished, failed or were shed, such as 99.2%."""
    goodput: Text | None = None
    """Good requests per second."""
    goodput_per_gpu: Annotated[Text | None, Field(alias="goodputPerGPU")] = None
    """Good requests per second and GPU held; on CPU, per engine pod."""
    error_budget_remaining: ErrorBudgetStatus | None = None
    """Rest of the error budget, by an hour and by 30 days."""
    blame: Annotated[dict[str, int], Field(max_length=16)] | None = None
    """Requests that missed a bound in the recent window, by cause."""
    classes: (
        Annotated[
            list[ClassStatus],
            Field(max_length=16),
            ListMap("name"),
        ]
        | None
    ) = None
    """Results by class, best effort included. The other fields describe only guaranteed
    requests."""


class TenantStatus(ApiModel):
    """Results of one tenant in the last two minutes."""

    name: Text
    """Name in spec.router.tenants.named; other: all others."""
    attainment: Text | None = None
    """Good requests as a share of those within its limits."""
    requests: Text | None = None
    """Requests per second that ended, refused ones included."""
    refused: Text | None = None
    """Requests per second that a limit refused, that would be late, or that were shed."""
    output_tokens: Text | None = None
    """Output tokens per second."""


class CostStatus(ApiModel):
    """Cost of the pool by the price in spec.cost, with the currency behind each amount."""

    per_hour: Text | None = None
    """Cost of the GPUs that the pool holds now, such as 9.96 USD."""
    per_million_tokens: Text | None = None
    """Cost of a million output tokens, at the rate of the recent window."""
    per_thousand_good_requests: Text | None = None
    """Cost of a thousand good requests, at the rate of the recent window."""


class FiguresStatus(ApiModel):
    """The figures of this status as numbers, for programs. Ratios are from 0 to 1."""

    ttft_p50_seconds: Annotated[float | None, Field(alias="ttftP50Seconds")] = None
    """Median of TTFT."""
    ttft_p95_seconds: Annotated[float | None, Field(alias="ttftP95Seconds")] = None
    """95th percentile of TTFT."""
    ttft_p99_seconds: Annotated[float | None, Field(alias="ttftP99Seconds")] = None
    """99th percentile of TTFT."""
    tpot_p50_seconds: Annotated[float | None, Field(alias="tpotP50Seconds")] = None
    """Median of TPOT."""
    tpot_p95_seconds: Annotated[float | None, Field(alias="tpotP95Seconds")] = None
    """95th percentile of TPOT."""
    tpot_p99_seconds: Annotated[float | None, Field(alias="tpotP99Seconds")] = None
    """99th percentile of TPOT."""
    attainment_ratio: float | None = None
    """slo.attainment."""
    error_budget_remaining_ratio: float | None = None
    """slo.errorBudgetRemaining.share; below 0 the budget of an hour is overspent."""
    good_requests_per_second: float | None = None
    """slo.goodput."""
    good_requests_per_gpu_second: Annotated[
        float | None, Field(alias="goodRequestsPerGPUSecond")
    ] = None
    """slo.goodputPerGPU."""
    prefill_capacity_requests_per_second: float | None = None
    """prefill.capacity."""
    decode_capacity_requests_per_second: float | None = None
    """decode.capacity."""
    prefill_utilization_ratio: float | None = None
    """prefill.utilization."""
    decode_utilization_ratio: float | None = None
    """decode.utilization."""
    gpus: int | None = None
    """GPUs that the pool holds; on CPU, engine pods."""
    cost_per_hour: float | None = None
    """cost.perHour, in the currency of spec.cost."""


class WakeStatus(ApiModel):
    """The latest wake from zero. Its parts, such as 1.2s, follow one another."""

    time: Time
    """Time when a request found the pool at zero."""
    noticed: Text | None = None
    """Time from this request until Tandem asked for both roles."""
    scheduled: Text | None = None
    """Further time until each role had a pod with a node."""
    started: Text | None = None
    """Further time until each role had a Ready pod."""
    first_token: Text | None = None
    """Further time until a waiting request had its first token; 0s if the token came earlier."""


class SleepStatus(ApiModel):
    """Sleep of the pool by scaling.scaleToZeroAfter."""

    since: Time | None = None
    """Time since which both roles are at zero; absent while they are not."""
    wakes: int | None = None
    """Number of times that requests woke the pool."""
    last_wake: WakeStatus | None = None
    """The latest wake."""


class ScheduleStatus(ApiModel):
    """One of scaling.schedules now."""

    name: Text
    """Name of the schedule."""
    until: Time | None = None
    """Time at which the schedule ends; absent while it is not in force."""
    next: Time | None = None
    """Next start of the schedule; absent if it goes on without a break."""


class Step(ApiModel):
    """A change of one replica count."""

    from_: Annotated[int, Field(alias="from")]
    """Replicas before."""
    to: int
    """Replicas after."""


class DecisionStatus(ApiModel):
    """The last decision that changed a count or the reason behind it."""

    time: Time
    """Time of the decision."""
    prefill: Step | None = None
    """Change of the prefill fleet."""
    decode: Step | None = None
    """Change of the decode fleet."""
    reason: Sentence
    """One sentence: the measured or predicted cause, and the change."""
    inputs: Annotated[dict[str, Text], Field(max_length=64)] | None = None
    """The numbers behind the decision, each with its unit in its name."""
    limits_hit: Annotated[list[Sentence], Field(max_length=16)] | None = None
    """Limits that kept a count below the need of the load."""
    alternatives: Annotated[list[Sentence], Field(max_length=16)] | None = None
    """Other counts that Tandem considered, and why it rejected them."""


class PoolStatus(ApiModel):
    """State and last decision, as the operator last saw them. Absent means unknown, never zero."""

    # The API server fills it in, so that programs do not take a pool for one that is done.
    observed_generation: Annotated[
        int | None, Field(json_schema_extra={"default": UNSEEN_GENERATION})
    ] = None
    """metadata.generation that the conditions describe. Accepted says whether it is in force. It is
    -1 until an operator has seen the pool."""
    operator: Annotated[str, Field(max_length=512)] | None = None
    """Lease of the operator that runs the pool, as NAMESPACE/NAME. Other operators leave the pool
    alone until that Lease was not renewed for a minute."""
    endpoint: Annotated[str, Field(max_length=512)] | None = None
    """URL of the OpenAI-compatible API inside the cluster."""
    hostnames: Annotated[list[Hostname], Field(max_length=16)] | None = None
    """Hosts of the pool's HTTPRoute."""
    conditions: (
        Annotated[
            list[Condition],
            Field(max_length=32),
            ListMap("type"),
        ]
        | None
    ) = None
    """Conditions of the pool, one of each type."""
    prefill: RoleStatus | None = None
    """State of the prefill fleet."""
    decode: RoleStatus | None = None
    """State of the decode fleet."""
    router: RouterStatus | None = None
    """State of the routers."""
    slo: SloStatus | None = None
    """Latency and goodput of the recent window."""
    tenants: (
        Annotated[
            list[TenantStatus],
            Field(max_length=65),
            ListMap("name"),
        ]
        | None
    ) = None
    """Results by tenant; absent without spec.router.tenants."""
    cost: CostStatus | None = None
    """Cost of the pool; absent without spec.cost."""
    figures: FiguresStatus | None = None
    """The measured figures again, as numbers for programs."""
    sleep: SleepStatus | None = None
    """Sleep and wakes; absent without scaling.scaleToZeroAfter."""
    schedules: (
        Annotated[
            list[ScheduleStatus],
            Field(max_length=16),
            ListMap("name"),
        ]
        | None
    ) = None
    """The schedules of scaling.schedules; absent without any."""
    decision: DecisionStatus | None = None
    """The last decision, with its reason."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, if it was ever written."""
        return next((one for one in self.conditions or () if one.type == kind), None)


def parse_status(obj: Any) -> PoolStatus:
    """Read the status of a custom resource as the API server has it; empty before the first."""
    status = obj.get("status") or {}
    if isinstance(status, Mapping) and status.get("observedGeneration") == UNSEEN_GENERATION:
        status = {key: each for key, each in status.items() if key != "observedGeneration"}
    return PoolStatus.model_validate(status, by_name=False)
