"""What the operator is told of the waiting requests."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.history import OVERDUE_S


@dataclass(slots=True)
class Queued:
    """The waiting requests, and which of them decode pods held back for most of their wait.

    Attributes:
        requests, by_class: all of them; the other counts are without best effort.
        overdue, held_overdue: those whose TTFT bound passed within the last minute.
    """

    requests: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    held_prompt_tokens: int = 0
    overdue: int = 0
    held_overdue: int = 0


def queued_of(waiters: Iterable[Waiter], *, held_s: float, now: float) -> Queued:
    """Count them; decode pods have held requests back for `held_s` in all."""
    found = Queued()
    for waiter in waiters:
        found.requests += 1
        if waiter.slo_class is not None:
            found.by_class[waiter.slo_class] += 1
        if waiter.rank.best_effort:
            continue
        held = held_s - waiter.held_before_s > 0.5 * (now - waiter.entered_s)
        # How long a wake takes is no fault of those that it waits for.
        overdue = not waiter.wake_s and now - OVERDUE_S < waiter.deadline_s <= now
        found.prompt_tokens += waiter.tokens
        found.held_prompt_tokens += held * waiter.tokens
        found.overdue += overdue
        found.held_overdue += held and overdue
    return found
