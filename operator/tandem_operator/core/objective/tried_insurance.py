"""The real results of an insurance: a too small one is not repeated, and level fleets stay.

Estimates of each minute vary by some percent, and predicted late requests by a factor of ten. A
fleet that follows those estimates changes every few minutes on level traffic. So only real late
requests, or an hour, lead to another fleet.
"""

from collections.abc import Mapping

from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def still_right(before: Cover, now_s: int | None, proof: Proof, *, tuning: Tuning = TUNING) -> bool:
    """Return whether a fleet for this level traffic stays without another look."""
    if proof is not Proof.NONE or before.level_s is None or now_s is None:
        return False
    # If a clock was set back, the time lies in the future.
    return 0 <= now_s - before.level_s < tuning.objective.level_window_s


def short_of(
    before: Cover, proof: Proof, now_s: int | None, *, tuning: Tuning = TUNING
) -> Short | None:
    """Return the insurance that was too small; it is forgotten after an hour.

    Models have errors of a few percent, which is a replica of a large fleet. The same mistake every
    few minutes would break the promise each time.
    """
    if now_s is None:
        return None
    if proof is Proof.SHORT and (before.steady or before.recurring):
        return short_as(before, at_s=now_s)
    known, kept_s = before.short, tuning.objective.level_window_s
    return known if known is not None and 0 <= now_s - known.at_s <= kept_s else None


def short_as(cover: Cover, *, at_s: int) -> Short:
    """Return the counts of an insurance, and how long it holds them."""
    floors = {role: cover.floor(role) for role in Role}
    return Short(floors=floors, hold_s=FOR_EVER_S if cover.steady else cover.hold_s, at_s=at_s)


def one_less(before: Cover, found: Mapping[Role, int]) -> dict[Role, int]:
    """Return the fleet with one replica less, of the role with most to spare.

    One less can make ten times as many requests late, so the next step waits for the result.
    """
    spare = {role: before.floor(role) - count for role, count in found.items()}
    role = max(spare, key=lambda each: spare[each])
    floors = {each: before.floor(each) for each in found}
    return floors if spare[role] <= 0 else {**floors, role: floors[role] - 1}
