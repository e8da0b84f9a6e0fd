"""Events: few, on transitions only, so that `kubectl describe` reads as the pool's story."""

from collections.abc import Iterator

from tandem_operator.api import Condition, ConditionType, PoolStatus
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.workloads.effects import Event, EventType, WriteOutcome
from tandem_operator.workloads.pool_names import ROUTER
from tandem_operator.workloads.status.condition_now import (
    AUTOSCALER_WAITS,
    BAD_THOUGH_ACCEPTED,
    BAD_WHEN_TRUE,
    FALSE,
    FIELDS_OVERRIDDEN,
    FIELDS_UNKNOWN,
    NEVER_BAD,
    TRUE,
    UNKNOWN,
)
from tandem_operator.workloads.status.measured_numbers import decision_without_numbers
from tandem_operator.workloads.status.pool_facts import PoolFacts
from tandem_operator.workloads.status.readiness import STARTING, UNDER_WAY, WAKING

FIELD_TAKEN = "FieldTaken"
KEY_REPLACED = "EngineKeyReplaced"
MEMORY_UNREADABLE = "MemoryUnreadable"
ROUTERS_SCALED = "RoutersScaled"
# `Ready`, `Available` and `Accepted` report the same, in the same words.
_TOLD_BY_OTHERS = frozenset({ConditionType.RECONCILING, ConditionType.STALLED})
_REFUSALS = frozenset(
    {
        Reason.AT_BOUND,
        Reason.GPU_BUDGET,
        Reason.NAMESPACE_QUOTA,
        Reason.STALE_METRICS,
        Reason.CAPACITY_BLOCKED,
    }
)


def events_of(
    before: PoolStatus,
    now: PoolStatus,
    *,
    decision: Decision | None = None,
    outcome: WriteOutcome | None = None,
) -> tuple[Event, ...]:
    """Return the changes between two statuses, each once."""
    told = (
        *_transitions(before, now),
        *(_decided(decision, now) if decision and _is_another_decision(before, now) else ()),
        *(
            Event(reason=FIELD_TAKEN, message=sentence, type=EventType.WARNING)
            for sentence in (outcome.taken if outcome else ())
        ),
    )
    return tuple(dict.fromkeys(told))


def routers_scaled(facts: PoolFacts, to: int | None) -> tuple[Event, ...]:
    """Return the Event for a changed number of routers, if their load is the cause."""
    current, why = facts.seen.replicas.get(ROUTER), facts.routers.why
    if to is None or current in (None, to) or to != facts.routers.to or not facts.in_force:
        return ()
    return (Event(reason=ROUTERS_SCALED, message=f"routers {current} -> {to}: {why}"),)


def _transitions(before: PoolStatus, now: PoolStatus) -> Iterator[Event]:
    for condition in now.conditions or ():
        kind = condition.kind
        if kind is not None and _is_news(kind, _known(before, kind), condition):
            bad = _is_bad(kind, condition)
            yield Event(
                reason=condition.reason,
                message=condition.message,
                type=EventType.WARNING if bad else EventType.NORMAL,
            )


def _known(before: PoolStatus, kind: ConditionType) -> Condition | None:
    found = before.condition(kind)
    if found is None and kind is ConditionType.AVAILABLE:
        # An operator of an earlier version said `Ready` for it.
        return before.condition(ConditionType.READY)
    return found


def _is_news(kind: ConditionType, before: Condition | None, now: Condition) -> bool:
    if kind in _TOLD_BY_OTHERS or now.reason == WAKING:
        # The decision reports a wake.
        return False
    if now.reason == STARTING and kind in (ConditionType.READY, ConditionType.AVAILABLE):
        # A pool that starts is no news; one that served before is.
        was_up = before is not None and before.status == TRUE
        return was_up and kind is ConditionType.AVAILABLE
    if kind is ConditionType.ACCEPTED and now.reason in (FIELDS_OVERRIDDEN, FIELDS_UNKNOWN):
        return before is None or before.message != now.message
    if before is not None and before.status == now.status:
        # A new trouble is news, and so is the old one with another cause.
        return _is_bad(kind, now) and before.reason != now.reason
    if before is None:
        return _is_bad(kind, now) or kind in (ConditionType.READY, ConditionType.AVAILABLE)
    return now.status != UNKNOWN and (_is_bad(kind, now) or before.status != UNKNOWN)


def _is_bad(kind: ConditionType, condition: Condition) -> bool:
    bad = TRUE if kind in BAD_WHEN_TRUE else FALSE
    if kind is ConditionType.SCALING_ACTIVE:
        return condition.reason == AUTOSCALER_WAITS
    if kind in NEVER_BAD:
        return False
    if kind is ConditionType.READY and condition.reason in UNDER_WAY:
        return False
    if kind is ConditionType.ACCEPTED and condition.reason in BAD_THOUGH_ACCEPTED:
        return True
    return condition.status == bad


def _is_another_decision(before: PoolStatus, now: PoolStatus) -> bool:
    """Return whether more than the numbers differs: numbers change with each request."""
    told = (each.decision for each in (before, now))
    was, is_now = ({} if each is None else each.to_object() for each in told)
    return decision_without_numbers(was) != decision_without_numbers(is_now)


def _decided(decision: Decision, now: PoolStatus) -> Iterator[Event]:
    fresh = now.condition(ConditionType.METRICS_FRESH)
    told = _REFUSALS
    if fresh is not None and fresh.status == UNKNOWN:
        # Before the first metrics, none can be missing.
        told = told - {Reason.STALE_METRICS}
    for decided in decision.roles.values():
        if decided.to != decided.current or decided.reason in told:
            yield Event(reason=decided.reason.value, message=decided.sentence)
