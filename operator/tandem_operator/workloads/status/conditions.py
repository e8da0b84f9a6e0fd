"""The pool's conditions: one verdict each, with a reason for programs and a sentence for people.

Sentences contain no number that changes with the load. So a condition changes only with its news.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from tandem_operator.api import Condition, ConditionType, PoolStatus, format_duration
from tandem_operator.api.v1alpha1.scaling import MetricsSource
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode
from tandem_operator.workloads.observed.live_objects import LiveObjects
from tandem_operator.workloads.pod_status import epoch_s
from tandem_operator.workloads.pool_names import ROUTER
from tandem_operator.workloads.status.condition_now import (
    AUTOSCALER_WAITS,
    FALSE,
    FIELDS_OVERRIDDEN,
    FIELDS_UNKNOWN,
    MEMORY_REFUSED,
    TRUE,
    UNKNOWN,
    ConditionNow,
    Statement,
    joined,
)
from tandem_operator.workloads.status.not_serving import Sickness, ejected, lapsed
from tandem_operator.workloads.status.pool_facts import PoolFacts
from tandem_operator.workloads.status.readiness import (
    STARTING,
    readiness,
    readiness_of_rejected,
    stall_of,
)
from tandem_operator.workloads.status.route_condition import route_accepted
from tandem_operator.workloads.world import Rival

LONGEST_MESSAGE = 4096
FIRST_METRICS_S = 60.0
"""Serving time after which a Prometheus, too, must have read the pool."""


def verdicts(facts: PoolFacts) -> tuple[ConditionNow, ...]:
    """Return all conditions of a pool with a valid spec."""
    return (
        *readiness(facts),
        _accepted(facts),
        _slo_met(facts),
        _metrics_fresh(facts),
        _scaling_active(facts),
        _capacity_blocked(facts),
        _slo_feasible(facts),
        _field_conflict(facts),
        _engines_healthy(facts),
        *([] if facts.route is None else [route_accepted(facts.route)]),
    )


def rejection(sentences: Iterable[str], seen: LiveObjects) -> tuple[ConditionNow, ...]:
    """Return the conditions that change if the spec cannot be run; running objects stay."""
    message = "; ".join(sentences) + ". Tandem left the running pods unchanged."
    why = Statement("InvalidSpec", message)
    return (*readiness_of_rejected(seen, why), why.makes(ConditionType.ACCEPTED, FALSE))


def conditions(
    current: Iterable[ConditionNow], previous: PoolStatus, *, generation: int, now_s: float
) -> list[Condition]:
    """Return the verdicts as conditions; a transition time changes only with the status."""
    return [
        Condition(
            type=verdict.type,
            status=verdict.status,
            observed_generation=generation,
            last_transition_time=transition_time(
                previous.condition(verdict.type), verdict.status, now_s=now_s
            ),
            reason=verdict.reason,
            message=verdict.message[:LONGEST_MESSAGE],
        )
        for verdict in current
    ]


def rfc3339(at_s: float) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def transition_time(before: Condition | None, status: str, *, now_s: float) -> str:
    """Return since when a condition has its present status."""
    if before is not None and before.status == status:
        return before.last_transition_time
    return rfc3339(now_s)


def _accepted(facts: PoolFacts) -> ConditionNow:
    stall = stall_of(facts.outcome)
    if stall is not None:
        return stall.makes(ConditionType.ACCEPTED, FALSE)
    troubles = dict(_troubles_though_accepted(facts))
    if troubles:
        reason, message = next(iter(troubles)), " ".join(troubles.values())
        return ConditionNow(ConditionType.ACCEPTED, TRUE, reason, message)
    return ConditionNow(ConditionType.ACCEPTED, TRUE, "Valid", "The spec is in force.")


def _troubles_though_accepted(facts: PoolFacts) -> Iterator[tuple[str, str]]:
    """Yield reasons and sentences of the faults that remain while the spec is in force."""
    if facts.outcome.unstored is not None:
        message = f"The API server refused ConfigMap {facts.name.memory}. A restart of the operator"
        message += " would lose the learned models of this pool. Remove the cause"
        yield MEMORY_REFUSED, f"{message}: {facts.outcome.unstored.rstrip('.')}."
    if facts.idle:
        yield FIELDS_UNKNOWN, f"These pod template fields have no effect. {facts.idle}"
    if facts.overridden:
        message = "Tandem sets these pod template fields itself and ignores yours: "
        yield FIELDS_OVERRIDDEN, message + "; ".join(facts.overridden) + "."


def _slo_met(facts: PoolFacts) -> ConditionNow:
    recent = facts.decision.recent
    objective = f"{facts.policy.slo.attainment * 100:g}%"
    if recent.attainment is None:
        message = "No request ended in the recent window."
        return ConditionNow(ConditionType.SLO_MET, UNKNOWN, "NoRequests", message)
    if recent.attainment >= facts.policy.slo.attainment:
        # Without prefill pods, decode pods serve whole requests.
        needed = (Role.DECODE, ROUTER)
        missing = [str(each) for each in needed if not facts.seen.of(each, PodPhase.READY)]
        if missing and not facts.asleep:
            # Requests that wait for them have not ended yet.
            message = (
                "The completed requests kept both bounds, but no request is served without a Ready"
                f" pod of {joined(missing)}."
            )
            return ConditionNow(ConditionType.SLO_MET, UNKNOWN, "NotServing", message)
        message = f"At least {objective} of the recent requests kept both bounds."
        return ConditionNow(ConditionType.SLO_MET, TRUE, "Met", message)
    message = f"Fewer than {objective} of the recent requests kept both bounds"
    if recent.blame:
        most = max(sorted(recent.blame), key=lambda cause: recent.blame[cause])
        message += f"; the most frequent cause is {most}"
    return ConditionNow(ConditionType.SLO_MET, FALSE, "Missed", message + ".")


def _metrics_fresh(facts: PoolFacts) -> ConditionNow:
    message = capital(facts.decision.fresh_message)
    if facts.metrics_source is MetricsSource.PROMETHEUS:
        message += f" ({facts.prometheus_fault or 'read from Prometheus'})"
    elif facts.prometheus_passed_over:
        why = facts.prometheus_fault or "Prometheus has no fresh samples of some of them"
        message += f" (read from the pods: {why})"
    if facts.decision.fresh:
        return ConditionNow(ConditionType.METRICS_FRESH, TRUE, "Fresh", message)
    if _is_new(facts):
        message = "Tandem has not measured this pool yet."
        return ConditionNow(ConditionType.METRICS_FRESH, UNKNOWN, STARTING, message)
    return ConditionNow(ConditionType.METRICS_FRESH, FALSE, "StaleOrMissing", message)


def _is_new(facts: PoolFacts) -> bool:
    """Return whether the pool serves only recently, or not yet, and was never measured."""
    measured = facts.previous.condition(ConditionType.METRICS_FRESH)
    if measured is not None and measured.status != UNKNOWN:
        return False
    available = facts.previous.condition(ConditionType.AVAILABLE)
    if available is None or available.status != TRUE:
        return True
    since_s = epoch_s(available.last_transition_time)
    return since_s is not None and 0.0 <= facts.now_s - since_s < FIRST_METRICS_S


def _scaling_active(facts: PoolFacts) -> ConditionNow:
    policy = facts.policy
    if policy.mode is not Mode.AUTO:
        what = "changes no" if policy.mode is Mode.PAUSED else "only recommends"
        message = f"Tandem {what} replica counts, since scaling.mode is {policy.mode}."
        return ConditionNow(ConditionType.SCALING_ACTIVE, FALSE, str(policy.mode), message)
    external = [str(role) for role in Role if not policy.roles[role].managed]
    waiting = [_waiting(facts, role, name) for role, name in sorted(facts.waiting.items())]
    if waiting:
        status = FALSE if len(external) == len(Role) else TRUE
        return ConditionNow(
            ConditionType.SCALING_ACTIVE, status, AUTOSCALER_WAITS, " ".join(waiting)
        )
    if external:
        how = "see FieldConflict" if facts.rivals else "management: External"
        message = f"Another owner sets the replicas of {joined(external)} ({how})."
        status = FALSE if len(external) == len(Role) else TRUE
        return ConditionNow(ConditionType.SCALING_ACTIVE, status, "External", message)
    message = "Tandem sets the replica counts of both roles."
    return ConditionNow(ConditionType.SCALING_ACTIVE, TRUE, "Auto", message)


def _waiting(facts: PoolFacts, role: str, autoscaler: str) -> str:
    return (
        f"HorizontalPodAutoscaler {autoscaler} scales nothing: PoolRole {facts.name.child(role)}"
        f" exists only while {role}.management is External. Set it to hand {role} over, or remove"
        " the autoscaler."
    )


def _capacity_blocked(facts: PoolFacts) -> ConditionNow:
    refusals = [f"{name}: {why}" for name, why in sorted(facts.seen.refusals.items())]
    stuck, kept = facts.decision.capacity_blocked, facts.decision.drain_blocked
    blocked = [*refusals, *filter(None, [stuck, kept])]
    if blocked:
        reason = "PodsRefused" if refusals else "PodsStuck" if stuck else "DrainBlocked"
        return ConditionNow(ConditionType.CAPACITY_BLOCKED, TRUE, reason, "; ".join(blocked))
    message = "All desired pods run or are starting."
    return ConditionNow(ConditionType.CAPACITY_BLOCKED, FALSE, "NotBlocked", message)


def _slo_feasible(facts: PoolFacts) -> ConditionNow:
    decision = facts.decision
    if decision.slo_feasible is None:
        message = "Tandem has too few measurements to tell."
        return ConditionNow(ConditionType.SLO_FEASIBLE, UNKNOWN, "Learning", message)
    if decision.slo_feasible:
        message = "Enough replicas can keep the SLO."
        return ConditionNow(ConditionType.SLO_FEASIBLE, TRUE, "Feasible", message)
    bounds = {
        "slo.ttft.target": decision.feasible_ttft_s,
        "slo.tpot.target": decision.feasible_tpot_s,
    }
    could = [f"{field}: {format_duration(at)}" for field, at in bounds.items() if at is not None]
    message = "No number of replicas can keep the SLO"
    message += f"; replicas can keep {joined(could)}." if could else "."
    return ConditionNow(ConditionType.SLO_FEASIBLE, FALSE, "Infeasible", message)


def _field_conflict(facts: PoolFacts) -> ConditionNow:
    if facts.outcome.blocked is not None:
        return ConditionNow(
            ConditionType.FIELD_CONFLICT, TRUE, "OwnedByOther", facts.outcome.blocked
        )
    if facts.outcome.left:
        message = " ".join(facts.outcome.left)
        return ConditionNow(
            ConditionType.FIELD_CONFLICT,
            TRUE,
            "FieldsLeft",
            f"{message} Tandem does not change these fields and applies all other fields.",
        )
    if facts.rivals:
        message = " ".join(_rivalry(facts, *each) for each in facts.rivals.items())
        return ConditionNow(ConditionType.FIELD_CONFLICT, TRUE, "ReplicasContested", message)
    message = "No other manager owns a field that Tandem writes."
    return ConditionNow(ConditionType.FIELD_CONFLICT, FALSE, "NoConflict", message)


def _rivalry(facts: PoolFacts, component: str, rival: Rival) -> str:
    keep = f"Set {component}.management: External to keep it, or remove it"
    if component == ROUTER:
        keep = "Remove it, since router.minReplicas sets the number of routers"
    elif component in facts.followed:
        child = facts.name.child(component)
        keep = f"Let it scale PoolRole {child} instead, or delete that PoolRole once"
    who = capital(rival.who)
    return (
        f"{who} changes the replicas of {component} repeatedly. Tandem leaves them unchanged."
        f" {keep}. Tandem checks again every 10 minutes."
    )


def _engines_healthy(facts: PoolFacts) -> ConditionNow:
    kind, lapses, sick = ConditionType.ENGINES_HEALTHY, lapsed(facts), ejected(facts)
    sentences = []
    if lapses:
        sentences.append(f"These pods are no longer Ready: {_named(lapses)}.")
    if sick:
        sentences.append(f"The routers send no requests to these Ready pods: {_named(sick)}.")
    if sentences:
        return ConditionNow(
            kind, FALSE, "EnginesStopped" if lapses else "EnginesEjected", " ".join(sentences)
        )
    if all(router.ended for router in facts.seen.observation.routers):
        return ConditionNow(
            kind, UNKNOWN, "NoRouters", "No router reports the health of engine pods."
        )
    return ConditionNow(
        kind, TRUE, "Serving", "The routers send requests to every Ready engine pod."
    )


def _named(pods: Iterable[Sickness]) -> str:
    return "; ".join(
        f"{pod.role} pod {pod.pod} since {rfc3339(pod.since_s)}: {pod.words.rstrip('.')}"
        for pod in pods
    )


def capital(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]
