"""How many routers: as many as keep each below half of a core, which is all that one can use.

More come at once, since requests wait for them. Fewer come only once fewer were enough for five
minutes, with a margin between the two, and never while a router does not tell how busy it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.observation import RouterReport
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class RouterCount:
    """How many routers there should be, and what to remember.

    Attributes:
        why: the cause of a change, in words; `None` where nothing changes.
        busiest_share: of one core; `None` where no router tells.
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
    """The count for now.

    Args:
        wants: what `RouterCount` had to be remembered last.
        reports: what routers said in this tick.
        asked: the replicas that there are; `None` where there is no Deployment yet.
        expected: routers that should have said something.
        least: fewest, by the user.
        most: most, by the user.
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
