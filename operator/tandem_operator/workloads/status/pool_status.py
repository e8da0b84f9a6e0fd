"""A pool's status: rounded so that a pool at rest says the same thing twice."""

import re
from collections.abc import Mapping
from typing import Any

from tandem_operator.api import (
    DecisionStatus,
    ErrorBudgetStatus,
    LatencyStatus,
    PoolStatus,
    RoleStatus,
    RouterStatus,
    SloStatus,
    Step,
    format_duration,
    format_rate,
    format_ratio,
)
from tandem_operator.core.decision import Reason
from tandem_operator.core.observation import PodPhase, Quantiles
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

LONGEST_SENTENCE = 2048
BUDGET_WINDOW = "1h"
TOLD_FOR_S = 15.0
"""So long a change is not followed by what holds a role back: who looks should see it."""
# `RecurringBursts` is none of them: who sees more replicas than load should read what they are for.
_QUIET = frozenset({Reason.STEADY, Reason.STABILIZING, Reason.NEW_TRAFFIC, Reason.STARTING_PODS})


def status_of(facts: PoolFacts) -> PoolStatus:
    """The status of a pool whose spec makes sense."""
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
        cost=None
        if facts.cost is None
        else cost_of(facts.cost, gpus=facts.gpus_held(), recent=facts.decision.recent),
        figures=figures_of(facts),
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
    """The status of a pool whose spec cannot be run: what runs goes on, and says so."""
    current = conditions(rejection(sentences, seen), previous, generation=generation, now_s=now_s)
    replaced = {condition.type for condition in current}
    kept = [each for each in previous.conditions or () if each.type not in replaced]
    roles = {role.value: _counts(seen, role, desired=_desired(previous, role)) for role in Role}
    update = {"observed_generation": generation, "conditions": [*current, *kept], **roles}
    return previous.model_copy(update=update)


def status_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the status says something new."""
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
    )
    return slo_status if slo_status.to_object() else None


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
    """The share in whole percents; what was told stays while it is less than one from it."""
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
    """The last decision worth telling: a change stays until something else needs saying."""
    decision, before = facts.decision, facts.previous.decision
    steps = {
        role: Step(from_=decided.current, to=decided.to) for role, decided in decision.roles.items()
    }
    sentence = decision.sentence[:LONGEST_SENTENCE]
    if before is not None:
        last_steps = {Role.PREFILL: before.prefill, Role.DECODE: before.decode}
        if _moves(steps):
            # A step that nobody takes comes again each tick, its numbers moving.
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
    """Whether a step is one that Tandem itself takes in this tick."""
    policy = facts.policy
    return (
        facts.in_force
        and policy.mode is Mode.AUTO
        and any(policy.roles[role].managed and _moves({role: steps[role]}) for role in Role)
    )


def _moves(steps: Mapping[Role, Step | None]) -> bool:
    return any(step is not None and step.from_ != step.to for step in steps.values())
