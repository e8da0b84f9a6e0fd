"""The values of series for a pool after one pass. An unknown value has none.

The code is pure: the exporter only sets these values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.api import Condition, ConditionType, Cost, parse_status
from tandem_operator.core.decision import Decision
from tandem_operator.core.observation import Quantiles
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.metrics import series
from tandem_operator.metrics.collect import Collected
from tandem_operator.metrics.series import MetricSeries
from tandem_operator.workloads.pass_plan import PassPlan
from tandem_operator.workloads.status.readiness import ASLEEP, WAKING
from tandem_operator.workloads.status.sleep_status import wake_parts
from tandem_operator.workloads.world import World

CONDITION_STATUSES = ("True", "False", "Unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPool:
    """A pool after a pass.

    Attributes:
        policy, decision, gpus_held, cost: `None` if the spec cannot be run; cost also if it names
            no price.
        ready: Ready engine pods by role.
        age_s: age of the oldest engine sample; `None` without any.
        at_s: end of the pass, in epoch seconds.
    """

    namespace: str
    pool: str
    conditions: Sequence[Condition]
    policy: PoolSpec | None
    decision: Decision | None
    ready: Mapping[str, int]
    gpus_held: int | None
    cost: Cost | None
    age_s: float | None
    at_s: float


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """One value, and its labels besides namespace and pool."""

    series: MetricSeries
    value: float
    labels: Mapping[str, str]

    def label_values(self, where: Mapping[str, str]) -> tuple[str, ...]:
        """Return the values of all its labels in the order of their names."""
        known = {**where, **self.labels}
        return tuple(known[name] for name in self.series.labels)


def shown_pool(
    world: World, concluded: PassPlan, collected: Collected, *, at_s: float
) -> ShownPool:
    """Return the pool as a pass left it, with the present conditions of its status."""
    metadata, basis = world.pool["metadata"], concluded.basis
    # No status to write means that the stored one is still complete.
    status = concluded.status or world.pool.get("status")
    return ShownPool(
        namespace=metadata["namespace"],
        pool=metadata["name"],
        conditions=parse_status({"status": status}).conditions or (),
        policy=None if basis is None else basis.policy,
        decision=concluded.decision,
        ready=collected.ready,
        gpus_held=None if basis is None else concluded.gpus_held,
        cost=None if basis is None else basis.pool.spec.cost,
        age_s=collected.age_s,
        at_s=at_s,
    )


def values_of(shown: ShownPool) -> Iterator[SeriesValue]:
    """Yield all gauges of a pool."""
    for made, value, labels in _all(shown):
        if value is not None:
            yield SeriesValue(made, value, labels)


_Found = Iterator[tuple[MetricSeries, float | None, Mapping[str, str]]]


def _all(shown: ShownPool) -> _Found:
    yield series.LAST_PASS, shown.at_s, {}
    yield series.METRICS_AGE, shown.age_s, {}
    yield series.GPUS_HELD, shown.gpus_held, {}
    if shown.cost is not None:
        yield series.GPU_HOUR_COST, shown.cost.price, {"currency": shown.cost.currency}
    for role, count in shown.ready.items():
        yield series.READY, count, {"role": role}
    for condition in shown.conditions:
        for status in CONDITION_STATUSES:
            labels = {"condition": condition.type, "status": status.lower()}
            yield series.CONDITION, float(condition.status == status), labels
    if shown.policy is not None:
        yield from _promised(shown.policy, shown.decision)
    if shown.policy is not None and shown.policy.sleep_after_s is not None:
        yield from _rested(shown)
    if shown.decision is not None:
        for role in shown.decision.roles:
            yield from _decided(shown.decision, role)
        yield from _measured(shown.decision)


def _rested(shown: ShownPool) -> _Found:
    if shown.decision is None:
        return
    rest, available = shown.decision.rest, ConditionType.AVAILABLE
    reason = next((each.reason for each in shown.conditions if each.type == available), None)
    state = {ASLEEP: "asleep", WAKING: "waking"}.get(reason or "", "awake")
    yield series.REST, 1.0, {"state": state}
    yield series.WAKES, rest.wakes, {}
    if rest.wake is not None:
        for part, seconds in wake_parts(rest.wake).items():
            yield series.WAKE_SECONDS, seconds, {"part": part}


def _promised(policy: PoolSpec, decision: Decision | None) -> _Found:
    slo, floors = policy.slo, {} if decision is None else decision.called.floors
    yield series.SLO_TTFT, slo.ttft_s, {}
    yield series.SLO_TTFT_PER_THOUSAND, slo.ttft_s_per_thousand_prompt_tokens, {}
    yield series.SLO_TPOT, slo.tpot_s, {}
    yield series.SLO_OBJECTIVE, slo.attainment, {}
    yield series.GPU_BUDGET, policy.whole_budget, {}
    yield series.MODE, 1.0, {"mode": policy.mode.value}
    for role, bounds in policy.roles.items():
        floor = floors.get(role, 0) if bounds.managed else 0
        yield series.MIN_REPLICAS, max(bounds.min_replicas, floor), {"role": role.value}
        yield series.MAX_REPLICAS, bounds.max_replicas, {"role": role.value}


def _decided(decision: Decision, role: Role) -> _Found:
    decided, inputs, labels = decision.roles[role], decision.inputs, {"role": role.value}
    yield series.DESIRED, decided.to, labels
    yield series.DECISION_REASON, 1.0, {**labels, "reason": decided.reason.value}
    yield series.CAPACITY, decided.capacity_rps, labels
    yield series.UTILIZATION, decided.utilization, labels
    yield series.COLD_START, inputs.get(f"cold_start_{role.value}_s"), labels
    yield series.MODEL_ERROR, inputs.get(f"{role.value}_model_error_ratio"), labels
    for limit in decided.limits_hit:
        yield series.LIMIT_HIT, 1.0, {**labels, "limit": limit}


def _measured(decision: Decision) -> _Found:
    recent, inputs, budget = decision.recent, decision.inputs, decision.budget
    yield series.ARRIVALS, inputs.get("arrivals_rps"), {}
    yield series.FORECAST, inputs.get("forecast_rps"), {}
    yield series.FORECAST_HIGH, inputs.get("forecast_high_rps"), {}
    yield series.ATTAINMENT, recent.attainment, {}
    yield series.GOODPUT, recent.goodput_rps, {}
    yield from _quantiles(series.TTFT, recent.ttft)
    yield from _quantiles(series.TPOT, recent.tpot)
    yield series.BUDGET_REMAINING, budget.remaining_share, {"window": "1h"}
    yield series.BUDGET_REMAINING, budget.remaining_30d_share, {"window": "30d"}
    for window, rate in budget.burn_rates.items():
        yield series.BURN_RATE, rate, {"window": window}
    for window, count in budget.late_requests.items():
        yield series.LATE_REQUESTS, count, {"window": window}


def _quantiles(made: MetricSeries, found: Quantiles) -> _Found:
    for quantile, value in (("0.5", found.p50_s), ("0.95", found.p95_s), ("0.99", found.p99_s)):
        yield made, value, {"quantile": quantile}
