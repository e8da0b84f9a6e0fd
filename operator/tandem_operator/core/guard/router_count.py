"""The number of routers: each stays below half of a core, which is all that a router can use.

Routers are added at once, because requests wait for them. They are removed only if fewer were
enough for five minutes, with a margin between the two limits. None is removed while a router does
not report its load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.observation import RouterReport
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class RouterCount:
    """The number of routers, and the next memory.

    Attributes:
        why: the cause of a change, in words; `None` without a change.
        busiest_share: of one core; `None` if no router reports.
    """

    to: int
    wants: Wants
    why: str | None = None
    busiest_share: float | None = None


def count_routers(
    wants: Wants,
    reports: Sequence[RouterReport],
    *,
    asked: int | None,
    expected: int,
    least: int,
    most: int,
    now_s: float,
    tuning: Tuning = TUNING,
) -> RouterCount:
    """Return the present number.

    Args:
        wants: the memory of the last `RouterCount`.
        reports: the reports of routers in this tick.
        asked: the present replicas; `None` without a Deployment.
        expected: routers that should have reported.
        least: the minimum in the spec.
        most: the maximum in the spec.
        now_s: the time.
        tuning: the numbers that decide.
    """
    busy_shares = [
        each.busy_share for each in reports if not each.ended and each.busy_share is not None
    ]
    busiest = max(busy_shares, default=None)
    bounded = min(max(least if asked is None else asked, least), most)
    if asked != bounded or busiest is None:
        why = None if asked in (None, bounded) else f"spec.router allows {least} to {most} replicas"
        return RouterCount(bounded, Wants(), why, busiest)
    load, numbers = sum(busy_shares), tuning.guard
    needed = min(ceil(load / numbers.router_busy_share), most)
    if needed > bounded:
        why = f"each router uses {100 * load / len(busy_shares):.0f} % of a core on average"
        return RouterCount(needed, Wants(), why, busiest)
    if len(busy_shares) < expected:
        return RouterCount(bounded, Wants(), None, busiest)
    enough = min(max(ceil(load / numbers.router_spare_share), least), bounded)
    after_s = numbers.router_shrink_after_s
    wants = wants.add(enough, now_s=now_s, kept_s=after_s, unseen_s=numbers.unseen_s)
    kept = wants.within(after_s, now_s)
    if kept is None or max(kept) >= bounded:
        return RouterCount(bounded, wants, None, busiest)
    why = f"fewer routers would have been enough for the last {after_s / 60:.0f} min"
    return RouterCount(max(kept), wants, why, busiest)
