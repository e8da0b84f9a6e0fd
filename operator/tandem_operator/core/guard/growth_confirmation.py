"""Growth must have been wanted for long enough: two ticks, or four if the need is small."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Plan
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Past:
    """The guard's memory of one role: the targets of each choice of its plans."""

    wants: Wants = field(default_factory=Wants)
    keeps: Wants = field(default_factory=Wants)
    sures: Wants = field(default_factory=Wants)


def remember(
    past: Mapping[Role, Past],
    plan: Plan,
    *,
    spec: PoolSpec,
    now_s: float,
    tuning: Tuning = TUNING,
) -> dict[Role, Past]:
    """Return the past with this tick's targets."""
    numbers = tuning.guard
    unseen_s = numbers.unseen_s
    kept_s = max(spec.stabilization_s, numbers.trade_s) + 2.0 * unseen_s
    return {
        role: Past(
            wants=old.wants.add(
                plan.choice.target[role],
                now_s=now_s,
                kept_s=numbers.confirm_small_s,
                unseen_s=unseen_s,
            ),
            keeps=old.keeps.add(
                plan.keep.target[role], now_s=now_s, kept_s=kept_s, unseen_s=unseen_s
            ),
            sures=old.sures.add(
                plan.sure.target[role], now_s=now_s, kept_s=numbers.confirm_s, unseen_s=unseen_s
            ),
        )
        for role in Role
        for old in (past.get(role, Past()),)
    }


def confirmed(past: Past, target: int, *, asked: int, now_s: float, tuning: Tuning = TUNING) -> int:
    """Return the part of a growth that was wanted for long enough; without growth, the target."""
    if target <= asked:
        return target
    sures = past.sures.within(tuning.guard.confirm_s, now_s)
    wants = past.wants.within(tuning.guard.confirm_small_s, now_s)
    return max([asked, *(min(each) for each in (sures, wants) if each is not None)])
