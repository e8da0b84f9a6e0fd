"""The policies that are replayed on the past: the floors to try, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.objective.tried_insurance import short_as
from tandem_operator.core.objective.what_if import (
    BucketPart,
    Late,
    Option,
    PlayedFleet,
    following,
    options,
    rate_of,
)
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.spec import RoleSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Game:
    """The replayed parts of the past, with late shares and floors to try by role."""

    history: DemandHistory
    parts: Sequence[BucketPart]
    weights: Sequence[float]
    late: Mapping[Role, Late]
    floors: Mapping[Role, range]
    tuning: Tuning = TUNING

    def tried(self, fleets: Mapping[Role, PlayedFleet]) -> dict[Role, list[Option]]:
        """Return each floor below each role's fleet."""
        return {
            role: options(
                self.parts,
                self.weights,
                role=role,
                late=self.late[role],
                fleet=fleet,
                floors=self.floors[role],
                tuning=self.tuning,
            )
            for role, fleet in fleets.items()
        }

    def followed(
        self, *, hold_s: float, lead_s: Mapping[Role, float], most: Mapping[Role, int]
    ) -> dict[Role, list[Option]]:
        """Return each floor below fleets that follow the forecast with this `hold_s`."""
        return self.tried(
            {
                role: following(
                    self.history, role, hold_s=hold_s, lead_s=lead_s[role], most=most[role]
                )
                for role in Role
            }
        )


@dataclass(frozen=True, slots=True)
class Played:
    """One replayed policy. `hold_s` is `None` for a fleet that never changes."""

    hold_s: float | None
    prefill: Option
    decode: Option

    @property
    def floors(self) -> dict[Role, int]:
        """Return the least count of each role."""
        return {Role.PREFILL: self.prefill.floor, Role.DECODE: self.decode.floor}

    @property
    def late(self) -> float:
        """Return the late requests of the past under this policy."""
        return self.prefill.late + self.decode.late

    def gpu_s(self, gpus: Mapping[Role, int]) -> float:
        """Return the GPU seconds that it would have held."""
        prefill_s, decode_s = self.prefill.replica_s, self.decode.replica_s
        return prefill_s * gpus[Role.PREFILL] + decode_s * gpus[Role.DECODE]

    def is_like(self, cover: Cover) -> bool:
        """Return whether this is the insurance in force."""
        same = cover.steady == (self.hold_s is None) and cover.hold_s == (self.hold_s or 0.0)
        return same and cover.floors == self.floors

    def is_within(self, short: Short) -> bool:
        """Return whether it holds no more, and for no longer, than a policy that was not enough."""
        as_long = (FOR_EVER_S if self.hold_s is None else self.hold_s) <= short.hold_s
        return as_long and all(floor <= short.floors[r] for r, floor in self.floors.items())

    def insures_no_more(self, cover: Cover) -> bool:
        """Return whether that insurance held as much, for as long."""
        return self.is_within(short_as(cover, at_s=0))


def pairs(hold_s: float | None, by_role: Mapping[Role, Sequence[Option]]) -> list[Played]:
    """Return each floor of one role with each of the other."""
    return [
        Played(hold_s, prefill, decode)
        for prefill in by_role[Role.PREFILL]
        for decode in by_role[Role.DECODE]
    ]


def floors_to_try(
    bounds: RoleSpec,
    parts: Sequence[BucketPart],
    role: Role,
    busy: float,
    *,
    level: bool,
    tuning: Tuning = TUNING,
) -> range:
    """Return counts to try, up to an easy load at the peak; only some for a large fleet.

    Level traffic never needs fewer than its load keeps busy.
    """
    numbers, least = tuning.objective, max(1, bounds.min_replicas)
    load = busy * rate_of(max(part.steps[role] for part in parts), tuning=tuning)
    if level:
        least = max(least, min(int(load / numbers.full_load_ratio), bounds.max_replicas))
    most = min(
        max(least, bounds.max_replicas), max(least, ceil(load / numbers.easy_load_ratio)) + 1
    )
    step = 1
    while (most - least) // step > numbers.most_floors:
        step *= 2
    return range(least, most + 1, step)
