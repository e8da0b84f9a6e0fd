"""Share GPUs between pools: minimums first, then by priority, then by good requests per GPU.

Within a priority the next GPUs go to the pool whose further replicas give the most good requests
per GPU, over all GPUs of one step. So a step of several tensor-parallel GPUs competes with its
mean, as on the concave envelope of the pool's curve.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.core.quota.demand_curve import Curve
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Claim:
    """One pool's side of the sharing, in GPUs.

    Attributes:
        least: GPUs that it keeps in any case: its minimum, or all that it asks for while too
            little is known to take any away.
        curve: the gain from more GPUs; empty if it wants no more than `least`.
        asked: GPUs that its Deployments ask for. Another pool of the same priority must be clearly
            better with these GPUs to get them: each move costs a start.
        held: GPUs that its pods hold or may claim, terminating pods included.
        granted: GPUs that it may hold since its own last tick, whether it already does or not.
    """

    pool: str
    priority: int
    least: int
    curve: Curve = ()
    asked: int = 0
    held: int = 0
    granted: int = 0

    @property
    def reserved(self) -> int:
        """Return the GPUs that no other pool can count on now."""
        return max(self.held, self.granted)


def allocate(claims: Iterable[Claim], *, gpus: int, tuning: Tuning = TUNING) -> Mapping[str, int]:
    """Return GPUs of each pool, together at most `gpus`; the order of claims does not matter.

    The minimum of a running pool comes before that of a new one, because no part can take it away.
    A minimum that does not fit as a whole is not begun.
    """
    ordered = sorted(claims, key=lambda claim: (-claim.priority, claim.pool))
    shares = {claim.pool: 0 for claim in ordered}
    left = max(0, gpus)
    for claim in sorted(ordered, key=lambda claim: claim.asked == 0):
        if claim.least <= left or claim.asked > 0:
            shares[claim.pool] = min(claim.least, left)
            left -= shares[claim.pool]
    for priority in sorted({claim.priority for claim in ordered}, reverse=True):
        peers = [
            claim
            for claim in ordered
            if claim.priority == priority and shares[claim.pool] == claim.least
        ]
        left = _share_out(peers, shares, left, tuning=tuning)
    for claim in ordered:
        # GPUs that no pool wants stay where they are, until their pool shrinks by itself.
        spare = min(left, max(0, claim.asked - shares[claim.pool]))
        if shares[claim.pool] >= claim.least:
            shares[claim.pool] += spare
            left -= spare
    return shares


def _share_out(
    peers: Sequence[Claim], shares: dict[str, int], left: int, *, tuning: Tuning = TUNING
) -> int:
    """Give pools of one priority their best steps; return the remaining GPUs."""
    worth = {claim.pool: _worth(claim, tuning=tuning) for claim in peers}
    while True:
        best: tuple[float, int, str, int] | None = None
        for pool, points in worth.items():
            have = shares[pool]
            now = max((value for gpus, value in points if gpus <= have), default=0.0)
            for gpus, value in points:
                if not 0 < gpus - have <= left:
                    continue
                gain = max(0.0, value - now) / (gpus - have)
                # Among equals, the pool with fewer GPUs goes first, then the smaller step.
                step = (-round(gain, 9), have, pool, gpus)
                if best is None or step < best:
                    best = step
        if best is None:
            return left
        _, have, pool, gpus = best
        shares[pool] = gpus
        left -= gpus - have


def _worth(claim: Claim, *, tuning: Tuning = TUNING) -> Sequence[tuple[int, float]]:
    """Return the curve with a higher value for GPUs that the pool already has."""
    kept = max((p.goodput_rps for p in claim.curve if p.gpus <= claim.asked), default=0.0)
    sticky = tuning.quota.stickiness_ratio
    return [(p.gpus, p.goodput_rps + sticky * min(p.goodput_rps, kept)) for p in claim.curve]
