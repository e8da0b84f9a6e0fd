"""The guard's result for one role."""

from dataclasses import dataclass

from tandem_operator.core.decision import Reason


@dataclass(frozen=True, slots=True)
class Allowed:
    """One role's count after the guard, and the obstacle between it and its target.

    `reason` is `None` for growth: its cause is in the models, not in the guard.
    """

    current: int
    to: int
    reason: Reason | None
    limits_hit: tuple[str, ...] = ()
