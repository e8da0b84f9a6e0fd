"""Events: few, on transitions only, so that `kubectl describe` reads as the pool's story."""

from collections.abc import Iterator

from tandem_operator.api import Condition, ConditionType, PoolStatus
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.workloads.effects import Event, EventType, WriteOutcome
from tandem_operator.workloads.pool_names import ROUTER
from tandem_operator.workloads.status.conditions import (
    BAD_THOUGH_ACCEPTED,
    BAD_WHEN_TRUE,
    FALSE,
    FIELDS_OVERRIDDEN,
    FIELDS_UNKNOWN,
    TRUE,
    UNKNOWN,
)
from tandem_operator.workloads.status.pool_facts import PoolFacts

FIELD_TAKEN = "FieldTaken"
KEY_REPLACED = "EngineKeyReplaced"
MEMORY_UNREADABLE = "MemoryUnreadable"
ROUTERS_SCALED = "RoutersScaled"
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
    """What happened between two statuses."""
    return (
        *_transitions(before, now),
        *(_decided(decision) if decision and now.decision != before.decision else ()),
        *(
            Event(reason=FIELD_TAKEN, message=sentence, type=EventType.WARNING)
            for sentence in (outcome.taken if outcome else ())
        ),
    )


def routers_scaled(facts: PoolFacts, to: int | None) -> tuple[Event, ...]:
    """That the routers become more or fewer, and why; nothing where that is not their load's."""
    current, why = facts.seen.replicas.get(ROUTER), facts.routers.why
    if to is None or current in (None, to) or to != facts.routers.to or not facts.in_force:
        return ()
    return (Event(reason=ROUTERS_SCALED, message=f"routers {current} -> {to}: {why}"),)


def _transitions(before: PoolStatus, now: PoolStatus) -> Iterator[Event]:
    for condition in now.conditions or ():
        kind = ConditionType(condition.type)
        if _is_news(kind, before.condition(kind), condition):
            bad = _is_bad(kind, condition)
            yield Event(
                reason=condition.reason,
                message=condition.message,
                type=EventType.WARNING if bad else EventType.NORMAL,
            )


def _is_news(kind: ConditionType, before: Condition | None, now: Condition) -> bool:
    if kind is ConditionType.READY and now.reason == "Starting":
        return False
    if kind is ConditionType.ACCEPTED and now.reason in (FIELDS_OVERRIDDEN, FIELDS_UNKNOWN):
        return before is None or before.message != now.message
    if before is not None and before.status == now.status:
        # Another trouble than before is news, and so is the same with another cause.
        return _is_bad(kind, now) and before.reason != now.reason
    if before is None:
        return _is_bad(kind, now) or kind is ConditionType.READY
    return now.status != UNKNOWN and (_is_bad(kind, now) or before.status != UNKNOWN)


def _is_bad(kind: ConditionType, condition: Condition) -> bool:
    bad = TRUE if kind in BAD_WHEN_TRUE else FALSE
    if kind is ConditionType.SCALING_ACTIVE:
        return False
    if kind is ConditionType.ACCEPTED and condition.reason in BAD_THOUGH_ACCEPTED:
        return True
    return condition.status == bad


def _decided(decision: Decision) -> Iterator[Event]:
    for decided in decision.roles.values():
        if decided.to != decided.current or decided.reason in _REFUSALS:
            yield Event(reason=decided.reason.value, message=decided.sentence)
