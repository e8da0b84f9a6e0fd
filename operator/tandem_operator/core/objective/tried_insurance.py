"""What really came of an insurance: too little is not taken again, and level traffic stays served.

What is estimated anew each minute swings by some percent, and predicted late requests by a factor
of ten. A fleet that follows those estimates moves every few minutes on traffic that does not. So
the late requests that really came, or an hour, ask for another fleet.
"""

from collections.abc import Mapping

from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def still_right(before: Cover, now_s: int | None, proof: Proof, *, tuning: Tuning = TUNING) -> bool:
    """Whether a fleet that was chosen for this level traffic stays without another look."""
    if proof is not Proof.NONE or before.level_s is None or now_s is None:
        return False
    # A clock that was set back leaves a time to come.
    return 0 <= now_s - before.level_s < tuning.objective.level_window_s


def short_of(
    before: Cover, proof: Proof, now_s: int | None, *, tuning: Tuning = TUNING
) -> Short | None:
    """The insurance that was not enough; it is forgotten after an hour.

    Models err by a few percent, which is a replica of a large fleet: the same mistake made again
    every few minutes would break the promise each time.
    """
    if now_s is None:
        return None
    if proof is Proof.SHORT and (before.steady or before.recurring):
        return short_as(before, at_s=now_s)
    known, kept_s = before.short, tuning.objective.level_window_s
    return known if known is not None and 0 <= now_s - known.at_s <= kept_s else None


def short_as(cover: Cover, *, at_s: int) -> Short:
    """What an insurance holds, and for how long."""
    floors = {role: cover.floor(role) for role in Role}
    return Short(floors=floors, hold_s=FOR_EVER_S if cover.steady else cover.hold_s, at_s=at_s)


def one_less(before: Cover, found: Mapping[Role, int]) -> dict[Role, int]:
    """The fleet of before with one replica less, of the role that has most to spare.

    One less can make ten times as many late, so the next one waits until that is seen.
    """
    spare = {role: before.floor(role) - count for role, count in found.items()}
    role = max(spare, key=lambda each: spare[each])
    floors = {each: before.floor(each) for each in found}
    return floors if spare[role] <= 0 else {**floors, role: floors[role] - 1}
