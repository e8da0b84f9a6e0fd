"""Bursts that the forecast alone did not predict, and whether they need an insurance.

For a new pool, even its own season is a surprise. Once the forecast knows the season, it is no
burst.
"""

from collections.abc import Mapping, Sequence

from tandem_operator.core.objective.what_if import BucketPart, Late, PlayedFleet
from tandem_operator.core.observe.demand_history import BUCKET_S
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def surprises_of(
    parts: Sequence[BucketPart],
    *,
    late: Mapping[Role, Late],
    fleets: Mapping[Role, PlayedFleet],
    least: Mapping[Role, int],
    whole: bool,
    tuning: Tuning = TUNING,
) -> int:
    """Return how many times the forecast alone came too late; the maximum of both roles.

    `parts` are not empty. `whole` says that they begin with the first request of the pool.
    """
    new_until = parts[0].bucket + tuning.objective.new_s // BUCKET_S if whole else 0
    felt: dict[int, dict[Role, int]] = {}
    for part in parts:
        felt[part.bucket] = _highest(part.steps, felt.get(part.bucket, part.steps))
    # A burst of prompts and a burst of answers are two bursts that each came once.
    return max(
        _surprises(
            _missed(
                parts,
                role=role,
                late=late[role],
                fleet=fleets[role],
                least=least[role],
                missed_share=tuning.objective.missed_share,
            ),
            felt=felt,
            fleets=fleets,
            new_until=new_until,
            tuning=tuning,
        )
        for role in Role
    )


def is_ruinous(
    parts: Sequence[BucketPart],
    *,
    late: Mapping[Role, Late],
    fleets: Mapping[Role, PlayedFleet],
    least: Mapping[Role, int],
    allowed_late: float,
    tuning: Tuning = TUNING,
) -> bool:
    """Return whether the forecast alone made several times too many requests late."""
    missed = sum(
        late[role].share(part.steps[role], max(least[role], fleets[role].ready[part.bucket]))
        * part.requests
        for role in Role
        for part in parts
    )
    return missed > tuning.objective.gross_ratio * allowed_late * sum(
        part.requests for part in parts
    )


def _missed(
    parts: Sequence[BucketPart],
    *,
    role: Role,
    late: Late,
    fleet: PlayedFleet,
    least: int,
    missed_share: float,
) -> dict[int, bool]:
    """Return for each bucket whether the forecast alone came too late for a role."""
    missed: dict[int, bool] = {}
    for part in parts:
        share = late.share(part.steps[role], max(least, fleet.ready[part.bucket]))
        missed[part.bucket] = missed.get(part.bucket, False) or share > missed_share
    return missed


def _surprises(
    missed: Mapping[int, bool],
    *,
    felt: Mapping[int, Mapping[Role, int]],
    fleets: Mapping[Role, PlayedFleet],
    new_until: int,
    tuning: Tuning = TUNING,
) -> int:
    """Return the number of surprises; those close together count once.

    A surprise before the bucket `new_until` does not count if the forecast has learned its load.
    """
    apart = tuning.objective.apart_buckets
    times, last = 0, -apart
    for at in (bucket for bucket, late_then in missed.items() if late_then):
        if at - last >= apart and not (
            at < new_until and _learned(at, missed, felt, fleets, tuning=tuning)
        ):
            times += 1
        last = at
    return times


def _learned(
    first: int,
    missed: Mapping[int, bool],
    felt: Mapping[int, Mapping[Role, int]],
    fleets: Mapping[Role, PlayedFleet],
    *,
    tuning: Tuning = TUNING,
) -> bool:
    """Return whether the load of the surprise at `first` came again, and the fleet grew in time.

    A return that met a fleet which had not shrunk proves nothing.
    """
    numbers, height = tuning.objective, felt[first]
    for at in range(first + 1, first + numbers.apart_buckets):
        height = _highest(height, felt.get(at, height))
    least, met = None, False
    for at, steps in felt.items():
        above = [steps[role] - height[role] for role in Role]
        if at < first + numbers.apart_buckets:
            continue
        if max(above) < -numbers.surely_below_steps:
            asked = sum(fleet.asked[at] for fleet in fleets.values())
            least = asked if least is None else min(least, asked)
        elif least is not None and max(map(abs, above)) <= numbers.nearly_steps:
            if missed[at]:
                return False
            met = met or sum(fleet.ready[at] for fleet in fleets.values()) > least
    return met


def _highest(one: Mapping[Role, int], other: Mapping[Role, int]) -> dict[Role, int]:
    return {role: max(one[role], other[role]) for role in Role}
