"""A pool's status: rounded so that a pool at rest says the same thing twice."""

import re
from collections.abc import Mapping
from typing import Any

from tandem_operator.api import (
    ClassStatus,
    DecisionStatus,
    ErrorBudgetStatus,
    LatencyStatus,
    PoolStatus,
    RoleStatus,
    RouterStatus,
    SloStatus,
    Step,
    TenantStatus,
    format_duration,
    format_rate,
    format_ratio,
)
from tandem_operator.core.decision import Reason
from tandem_operator.core.observation import ClassWindow, PodPhase, Quantiles, TenantWindow
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.pod_status import epoch_s
from tandem_operator.workloads.pool_names import ROUTER
from tandem_operator.workloads.status.conditions import conditions, rejection, rfc3339, verdicts
from tandem_operator.workloads.status.figures import figures_of
from tandem_operator.workloads.status.pool_cost import cost_of
from tandem_operator.workloads.status.pool_facts import PoolFacts
from tandem_operator.workloads.status.route_condition import served_hosts
from tandem_operator.workloads.status.schedule_status import schedules_status
from tandem_operator.workloads.status.sleep_status import sleep_status

LONGEST_SENTENCE = 2048
BUDGET_WINDOW = "1h"
TOLD_FOR_S = 15.0
"""Time for which a change stays in the status before an obstacle replaces it, so people see it."""
# `RecurringBursts` is not among them: a person who sees more replicas than the load needs should
# read the reason.
_QUIET = frozenset(
    {
        Reason.STEADY,
        Reason.STABILIZING,
        Reason.NEW_TRAFFIC,
        Reason.STARTING_PODS,
        Reason.ASLEEP,
    }
)


def status_of(facts: PoolFacts) -> PoolStatus:
    """Return the status of a pool with a valid spec."""
    previous = facts.previous
    return PoolStatus(
        observed_generation=facts.generation,
        operator=previous.operator,
        endpoint=facts.name.endpoint,
        hostnames=None if facts.route is None else served_hosts(facts.route),
        conditions=conditions(
            verdicts(facts), previous, generation=facts.generation, now_s=facts.now_s
        ),
        prefill=_role_status(facts, Role.PREFILL),
        decode=_role_status(facts, Role.DECODE),
        router=_router_status(facts),
        slo=_slo_status(facts),
        tenants=[_tenant_status(each) for each in facts.decision.recent.tenants] or None,
        cost=None
        if facts.cost is None
        else cost_of(facts.cost, gpus=facts.gpus_held(), recent=facts.decision.recent),
        figures=figures_of(facts),
        sleep=sleep_status(facts),
        schedules=schedules_status(facts),
        # What was decided for a generation that is not in force happens to no fleet.
        decision=_decision_status(facts) if facts.in_force else previous.decision,
    )


def rejected_status(
    previous: PoolStatus,
    sentences: tuple[str, ...],
    *,
    seen: LiveObjects,
    generation: int,
    now_s: float,
) -> PoolStatus:
    """Return the status of a pool whose spec cannot be run: running objects stay as they are."""
    current = conditions(rejection(sentences, seen), previous, generation=generation, now_s=now_s)
    replaced = {condition.type for condition in current}
    kept = [each for each in previous.conditions or () if each.type not in replaced]
    roles = {role.value: _counts(seen, role, desired=_desired(previous, role)) for role in Role}
    update = {"observed_generation": generation, "conditions": [*current, *kept], **roles}
    return previous.model_copy(update=update)


def status_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the status says something new."""
    return dict(old) != dict(new)


def _role_status(facts: PoolFacts, role: Role) -> RoleStatus:
    decided = facts.decision.roles[role]
    counts = _counts(facts.seen, role, desired=decided.to)
    capacity, utilization = decided.capacity_rps, decided.utilization
    return counts.model_copy(
        update={
            "updated": facts.updated(role),
            "capacity": None if capacity is None else format_rate(capacity),
            "utilization": None if utilization is None else format_ratio(utilization),
        }
    )


def _router_status(facts: PoolFacts) -> RouterStatus:
    busiest = facts.routers.busiest_share
    return RouterStatus(
        current=facts.seen.replicas.get(ROUTER),
        ready=len(facts.seen.of(ROUTER, PodPhase.READY)),
        desired=facts.routers.to,
        # In tenths: a pool at rest says the same thing twice.
        busy=None if busiest is None else format_ratio(round(busiest, 1)),
    )


def _counts(seen: LiveObjects, role: Role, *, desired: int | None) -> RoleStatus:
    ready = len(seen.of(role, PodPhase.READY))
    pending = len(seen.of(role, PodPhase.STARTING)) + len(seen.of(role, PodPhase.UNSCHEDULED))
    return RoleStatus(
        current=seen.replicas.get(role),
        ready=ready,
        desired=desired,
        pending=pending,
        summary=None if desired is None else f"{ready}/{desired}",
    )


def _desired(previous: PoolStatus, role: Role) -> int | None:
    fleet = previous.prefill if role is Role.PREFILL else previous.decode
    return None if fleet is None else fleet.desired


def _slo_status(facts: PoolFacts) -> SloStatus | None:
    recent, gpus = facts.decision.recent, facts.gpus_held()
    goodput = recent.goodput_rps
    slo_status = SloStatus(
        ttft=_latency(recent.ttft),
        tpot=_latency(recent.tpot),
        attainment=None if recent.attainment is None else format_ratio(recent.attainment),
        goodput=None if goodput is None else format_rate(goodput),
        goodput_per_gpu=None if goodput is None or not gpus else format_rate(goodput / gpus),
        error_budget_remaining=_error_budget(facts),
        blame={cause: count for cause, count in sorted(recent.blame.items()) if count} or None,
        classes=[_class_status(each) for each in recent.classes] or None,
    )
    return slo_status if slo_status.to_object() else None


def _class_status(window: ClassWindow) -> ClassStatus:
    if not window.finished:
        return ClassStatus(name=window.name, queued=window.queued_requests)
    return ClassStatus(
        name=window.name,
        attainment=format_ratio(window.good / window.finished),
        goodput=format_rate(window.good / window.window_s),
        good_tokens=format_rate(window.good_output_tokens / window.window_s),
        queued=window.queued_requests,
    )


def _tenant_status(window: TenantWindow) -> TenantStatus:
    requests = window.finished + window.limited
    return TenantStatus(
        name=window.name,
        attainment=format_ratio(window.good / window.finished) if window.finished else None,
        requests=format_rate(requests / window.window_s),
        refused=format_rate(window.refused / window.window_s),
        output_tokens=format_rate(window.output_tokens / window.window_s),
    )


def _error_budget(facts: PoolFacts) -> ErrorBudgetStatus | None:
    left, slo = facts.decision.budget, facts.previous.slo
    before = None if slo is None else slo.error_budget_remaining
    if left.remaining_share is None and left.remaining_30d_share is None:
        return None
    shown = ErrorBudgetStatus() if before is None else before
    return ErrorBudgetStatus(
        share=_whole_percent(left.remaining_share, shown.share),
        window=BUDGET_WINDOW,
        share_30d=_whole_percent(left.remaining_30d_share, shown.share_30d),
    )


def _whole_percent(share: float | None, shown: str | None) -> str | None:
    """Return the share in whole percents; the shown value stays within less than one of it."""
    if share is None:
        return None
    whole = None if shown is None else re.fullmatch(r"(-?[0-9]{1,9})%", shown)
    if whole is not None and abs(100.0 * share - int(whole[1])) < 1.0:
        return shown
    return f"{round(100.0 * share)}%"


def _latency(quantiles: Quantiles) -> LatencyStatus | None:
    values = {
        name: None if seconds is None else format_duration(seconds)
        for name, seconds in (
            ("p50", quantiles.p50_s),
            ("p95", quantiles.p95_s),
            ("p99", quantiles.p99_s),
        )
    }
    return LatencyStatus(**values) if any(values.values()) else None


def _decision_status(facts: PoolFacts) -> DecisionStatus:
    """Return the last decision worth showing: a change stays until something else is worth more."""
    decision, before = facts.decision, facts.previous.decision
    steps = {
        role: Step(from_=decided.current, to=decided.to) for role, decided in decision.roles.items()
    }
    sentence = decision.sentence[:LONGEST_SENTENCE]
    if before is not None:
        last_steps = {Role.PREFILL: before.prefill, Role.DECODE: before.decode}
        if _moves(steps):
            # A recommended step comes again each tick, with changing numbers.
            repeated = steps == last_steps and not _taken(facts, steps)
        else:
            quiet = all(each.reason in _QUIET for each in decision.roles.values())
            last_told_at_s = epoch_s(before.time)
            new = last_told_at_s is not None and 0.0 <= decision.at_s - last_told_at_s < TOLD_FOR_S
            repeated = before.reason == sentence or ((quiet or new) and _moves(last_steps))
        if repeated:
            return before
    limits = [limit for role in Role for limit in decision.roles[role].limits_hit]
    alternatives = [other for role in Role for other in decision.roles[role].alternatives]
    return DecisionStatus(
        time=rfc3339(decision.at_s),
        prefill=steps[Role.PREFILL],
        decode=steps[Role.DECODE],
        reason=sentence,
        inputs={name: f"{value:g}" for name, value in sorted(decision.inputs.items())} or None,
        limits_hit=list(dict.fromkeys(limits))[:16] or None,
        alternatives=alternatives[:16] or None,
    )


def _taken(facts: PoolFacts, steps: Mapping[Role, Step]) -> bool:
    """Return whether a step is one that Tandem itself takes in this tick."""
    policy = facts.policy
    return (
        facts.in_force
        and policy.mode is Mode.AUTO
        and any(policy.roles[role].managed and _moves({role: steps[role]}) for role in Role)
    )


def _moves(steps: Mapping[Role, Step | None]) -> bool:
    return any(step is not None and step.from_ != step.to for step in steps.values())
