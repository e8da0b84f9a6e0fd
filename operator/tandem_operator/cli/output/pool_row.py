"""One pool in a few figures, from its object in the API server. Unknown is `None`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from tandem_operator.api import (
    Condition,
    ConditionType,
    Device,
    FiguresStatus,
    InvalidPoolError,
    PoolStatus,
    RoleStatus,
    parse_pool,
    parse_status,
)
from tandem_operator.cli.diagnosis.advice import is_bad
from tandem_operator.cli.input.pool_list import name_of, namespace_of
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.workloads.pool_spec import policy_of
from tandem_operator.workloads.status.condition_now import BAD_WHEN_TRUE

UNSEEN, READY, UNREADABLE = "Unseen", "Ready", "Unreadable"
_DOWN = frozenset({ConditionType.READY, ConditionType.AVAILABLE, ConditionType.STALLED})
_LATE = ConditionType.SLO_MET


class Urgency(StrEnum):
    """The urgency of a look at a pool."""

    FINE = "fine"
    LOOK = "look"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One role: Ready pods, replicas asked for and wanted, and the maximum of the spec."""

    ready: int | None
    current: int | None
    wanted: int | None
    most: int | None
    used: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow:
    """All figures of a pool in `tandem top`.

    Attributes:
        state: Ready, or the faults, the worst first.
        slo: the bounds in force; `None` if the spec cannot be read.
        gpus: the GPUs that it holds; `None` on CPU.
        requests_per_s: the arrival rate, from the share of its capacity that a role uses.
        decided_s: time of the last decision, in epoch seconds.
    """

    namespace: str
    name: str
    state: tuple[str, ...]
    urgency: Urgency
    mode: str | None
    fleets: Mapping[str, FleetRow]
    slo: Slo | None
    ttft_p95: str | None
    tpot_p95: str | None
    attainment: str | None
    attainment_ratio: float | None
    budget_left: str | None
    budget_left_ratio: float | None
    budget_left_30d: str | None
    goodput: str | None
    goodput_per_gpu: str | None
    requests_per_s: float | None
    gpus: int | None
    cost_per_hour: str | None
    blame: Mapping[str, int]
    decided_s: float | None
    sentence: str | None

    def to_json(self, *, now_s: float) -> dict[str, Any]:
        """Return the row for programs."""
        fields = asdict(self)
        age_s = None if self.decided_s is None else round(max(0.0, now_s - self.decided_s))
        return fields | {"decision_age_s": age_s}


def row_of(obj: Mapping[str, Any]) -> PoolRow:
    """Return the row of one pool. Figures that cannot be read are left out."""
    state: tuple[str, ...] | None = None
    try:
        pool = parse_pool(obj)
    except InvalidPoolError:
        pool = None
    try:
        status = parse_status(obj)
    except ValidationError:
        status, state = PoolStatus(), (UNREADABLE,)
    policy = None if pool is None else policy_of(pool.spec)
    fleets = {
        role.value: _fleet(
            status.prefill if role is Role.PREFILL else status.decode,
            None if policy is None else policy.roles[role].max_replicas,
        )
        for role in Role
    }
    slo, decision = status.slo, status.decision
    figures = FiguresStatus() if status.figures is None else status.figures
    budget = None if slo is None else slo.error_budget_remaining
    on_gpus = pool is not None and pool.spec.engine.device is not Device.CPU
    return PoolRow(
        namespace=namespace_of(obj),
        name=name_of(obj),
        state=_state(status) if state is None else state,
        urgency=_urgency(status),
        mode=None if policy is None else policy.mode.value,
        fleets=fleets,
        slo=None if policy is None else policy.slo,
        ttft_p95=None if slo is None or slo.ttft is None else slo.ttft.p95,
        tpot_p95=None if slo is None or slo.tpot is None else slo.tpot.p95,
        attainment=None if slo is None else slo.attainment,
        attainment_ratio=figures.attainment_ratio,
        budget_left=None if budget is None else budget.share,
        budget_left_ratio=figures.error_budget_remaining_ratio,
        budget_left_30d=None if budget is None else budget.share_30d,
        goodput=None if slo is None else slo.goodput,
        goodput_per_gpu=None if slo is None else slo.goodput_per_gpu,
        requests_per_s=_arrivals(figures),
        gpus=figures.gpus if on_gpus else None,
        cost_per_hour=None if status.cost is None else status.cost.per_hour,
        blame={} if slo is None else slo.blame or {},
        decided_s=None if decision is None else epoch_s(decision.time),
        sentence=None if decision is None else decision.reason,
    )


def _fleet(status: RoleStatus | None, most: int | None) -> FleetRow:
    found = RoleStatus() if status is None else status
    return FleetRow(found.ready, found.current, found.desired, most, found.utilization)


def _bad(status: PoolStatus) -> list[Condition]:
    """Return bad conditions: first those that keep the pool from serving, lateness last."""
    bad = [each for each in status.conditions or () if is_bad(each)]
    return sorted(bad, key=lambda each: (each.kind not in _DOWN, each.kind is _LATE))


def _state(status: PoolStatus) -> tuple[str, ...]:
    if not status.conditions:
        return (UNSEEN,)
    told = [
        each.type if each.kind in BAD_WHEN_TRUE else f"not {each.type}" for each in _bad(status)
    ]
    return tuple(told) or (READY,)


def _urgency(status: PoolStatus) -> Urgency:
    bad = _bad(status)
    if not status.conditions or any(each.kind in _DOWN for each in bad):
        return Urgency.DOWN
    return Urgency.LOOK if bad else Urgency.FINE


def _arrivals(figures: FiguresStatus) -> float | None:
    """Return the arrival rate, from the use of a role's capacity."""
    roles = (
        (figures.prefill_capacity_requests_per_second, figures.prefill_utilization_ratio),
        (figures.decode_capacity_requests_per_second, figures.decode_utilization_ratio),
    )
    known = ((rate, used) for rate, used in roles if rate is not None and used is not None)
    return next((rate * used for rate, used in known), None)


def epoch_s(time: str) -> float | None:
    """Return the epoch seconds of a time of the API."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None


class RowOrder(StrEnum):
    """The order of the rows: the rows that need a look come first."""

    NAME = "name"
    STATE = "state"
    ATTAINMENT = "attainment"
    BUDGET = "budget"
    REQUESTS = "requests"
    GPUS = "gpus"
    DECISION = "decision"


# The lowest comes first.
_KEYS: Mapping[RowOrder, Callable[[PoolRow], float | None]] = {
    RowOrder.NAME: lambda row: 0.0,
    RowOrder.STATE: lambda row: -list(Urgency).index(row.urgency),
    RowOrder.ATTAINMENT: lambda row: row.attainment_ratio,
    RowOrder.BUDGET: lambda row: row.budget_left_ratio,
    RowOrder.REQUESTS: lambda row: _negative(row.requests_per_s),
    RowOrder.GPUS: lambda row: _negative(row.gpus),
    RowOrder.DECISION: lambda row: _negative(row.decided_s),
}


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def in_order(rows: Sequence[PoolRow], order: RowOrder) -> list[PoolRow]:
    """Return the rows sorted; those with an unknown figure come last."""

    def key(row: PoolRow) -> tuple[bool, float, str, str]:
        value = _KEYS[order](row)
        return value is None, value or 0.0, row.namespace, row.name

    return sorted(rows, key=key)
