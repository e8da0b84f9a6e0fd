"""What this pool's own bursts are worth insuring against.

The history is played again under a few policies: a floor for each role, and how long the fleet
keeps what it once needed, up to one that never moves. That tells who would have been late and which
GPUs would have been held: the newsvendor's problem over what really came, with the time that a
replica is kept as the ski-rental's. The cheapest policy inside the error budget is taken.
What is older counts less, so a pattern that ended is forgotten as other traffic comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from tandem_operator.core.budget import Proof
from tandem_operator.core.choose import gpus_of
from tandem_operator.core.cover import (
    FOR_EVER_S,
    LEVEL_S,
    OFTEN,
    Cover,
    Short,
    is_level,
    recurs,
)
from tandem_operator.core.history import BUCKET_S, KEPT_S, DemandHistory
from tandem_operator.core.level import one_less, short_as, short_of, still_right
from tandem_operator.core.play import (
    FULL_LOAD,
    Fleet,
    Late,
    LateShare,
    Option,
    Part,
    bursts_beyond,
    following,
    options,
    parts_of,
    rate_of,
    unmoved,
)
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.core.surprises import is_ruinous, surprises_of

HOLDS_S = (0.0, 60.0, 180.0, 600.0, 1800.0)
HALF_LIFE_S = 3600.0
LEAST_HISTORY_S = 120.0
# In units of the GPU time of a request, over the share that may be late: the most that is paid to
# have one request less late, so that no fleet is held for ever for a burst that was small.
MOST_PRICE = 10.0
# Each change costs a start. Another insurance must be so much cheaper than the one in force, or
# that one must miss so many times what is allowed. The other must miss no more than so much of
# what is allowed: what just passes now may not pass in a minute.
LOYALTY, TOLERATED, SURE = 0.93, 1.0, 0.5
# A fleet for level traffic is judged by its late requests, so it need not be that sure.
SURE_IF_LEVEL = 0.85
EASY_LOAD, MOST_FLOORS = 0.5, 16


@dataclass(frozen=True, slots=True)
class Work:
    """What requests of today cost and may wait.

    Attributes:
        busy: by role, replicas that one request per second keeps busy.
        late_share: by role, the late share of steady traffic, by rate and replicas.
        mean_tokens: prompt tokens of a request, and output tokens.
        dispersion: variance of the arrivals over that of a Poisson process.
    """

    busy: Mapping[Role, float]
    late_share: Mapping[Role, LateShare]
    mean_tokens: Mapping[Role, float]
    dispersion: float


def cover_for(
    spec: PoolSpec,
    history: DemandHistory,
    work: Work,
    *,
    lead_s: Mapping[Role, float],
    allowed_late: float,
    before: Cover,
    proof: Proof = Proof.NONE,
    overspent: bool = False,
) -> Cover:
    """The cheapest insurance that keeps the late share of the history within `allowed_late`.

    `lead_s` is how long a start takes. `before` is in force and stays where another is hardly
    cheaper. `proof` is what really came of it. `overspent`: nothing is left of the budget.
    """
    size = len(history)
    weights = [0.5 ** ((size - i) * BUCKET_S / HALF_LIFE_S) for i in range(size)]
    parts = parts_of(
        history,
        weights,
        mean_tokens=work.mean_tokens,
        dispersion=work.dispersion,
    )
    if size * BUCKET_S < LEAST_HISTORY_S or not parts:
        return replace(before, end_s=history.end_s)
    level = is_level(history)
    if level:
        if still_right(before, history.end_s, proof):
            return replace(before, end_s=history.end_s)
        # What is level has been so for an hour: what came before that no longer counts.
        first = size - LEVEL_S // BUCKET_S
        parts = tuple(part for part in parts if part.bucket >= first)
        weights = [weight if i >= first else 0.0 for i, weight in enumerate(weights)]
        if not parts:
            return replace(before, end_s=history.end_s)
    requests = sum(part.requests for part in parts)
    gpus = {
        role: spec.roles[role].gpus_per_replica if spec.roles[role].managed else 0 for role in Role
    }
    request_gpu_s = sum(work.busy[role] * gpus[role] for role in Role)
    price = MOST_PRICE * request_gpu_s / max(1e-3, 1.0 - spec.slo.attainment)
    # Where another owner sets the count, nothing can be insured and nothing is paid.
    busy = {role: work.busy[role] if spec.roles[role].managed else 0.0 for role in Role}
    late = {role: Late(work.late_share[role], busy=busy[role]) for role in Role}
    floors = {
        role: _floors(spec.roles[role], parts, role, busy[role], level=level) for role in Role
    }
    least = {role: floors[role].start for role in Role}
    bare = {
        role: following(history, role, hold_s=spec.stabilization_s, lead_s=lead_s[role])
        for role in Role
    }
    surprises = surprises_of(
        parts, late=late, fleets=bare, least=least, whole=size * BUCKET_S < KEPT_S
    )
    # After a silence it came back.
    rested = 0 in history.requests[parts[0].bucket : parts[-1].bucket]
    recurring = recurs(history) or (surprises >= OFTEN and rested)
    # What comes back and spent the budget is no surprise any more, and worth it all the same.
    worth = level or surprises >= OFTEN or (recurring and overspent)
    if not worth and not (
        surprises
        and is_ruinous(
            parts, late=late, fleets=bare, least=least, allowed_late=1.0 - spec.slo.attainment
        )
    ):
        # What came once may never come again.
        return Cover(floors=least, end_s=history.end_s, recurring=recurring, terms=before.terms)

    game = _Game(history=history, parts=parts, weights=weights, late=late, floors=floors)
    alone = game.tried(dict.fromkeys(Role, unmoved(history)))
    enough = {role: each[-1].floor for role, each in alone.items()}
    played: list[_Played] = []
    if not level:
        for hold_s in HOLDS_S:
            kept_s = max(hold_s, spec.stabilization_s)
            played += _pairs(hold_s, game.followed(hold_s=kept_s, lead_s=lead_s, most=enough))
    # Level traffic leaves nothing to follow: each move would answer chance, one start-up late.
    if recurring or level:
        played += _pairs(None, alone)
    played = [each for each in played if _fits(spec, each.floors)] or played[:1]
    short = short_of(before, proof, history.end_s)
    if short is not None:
        played = [each for each in played if not each.is_within(short)] or played[-1:]
    sure = SURE_IF_LEVEL if level else SURE

    def cost(each: _Played) -> float:
        loyalty, allowed = (LOYALTY, TOLERATED) if each.is_like(before) else (1.0, sure)
        excess = max(0.0, each.late - allowed * allowed_late * requests)
        return loyalty * (each.gpu_s(gpus) + price * excess)

    found = min(played, key=cost)
    ready_s = (history.end_s or 0) + ceil(max(lead_s.values()))
    taken = found.floors
    anew = level and proof is Proof.AMPLE and before.level_s is not None
    if anew:
        taken = one_less(before, taken)
    best = Cover(
        floors=taken,
        steady=found.hold_s is None,
        hold_s=found.hold_s or 0.0,
        end_s=history.end_s,
        late_share=min(1.0, found.late / requests),
        bare_share=min(1.0, played[0].late / requests),
        recurring=recurring,
        most=taken if found.hold_s is None else enough if recurring else {},
        busy=work.busy,
        record=max(history.requests[parts[0].bucket :], default=0),
        since_s=ready_s if anew or not found.insures_no_more(before) else _past(before, ready_s),
        short=short,
        terms=before.terms,
        level_s=history.end_s if level else None,
    )
    if found.is_like(before):
        # What it was taken for stays as it was told.
        return replace(best, bursts=before.bursts)
    told = {
        role: bursts_beyond(
            history,
            parts,
            role=role,
            late=late[role],
            replicas=floor - 1,
            mean_tokens=work.mean_tokens[role],
        )
        for role, floor in best.floors.items()
        if not level and floor > floors[role].start
    }
    return replace(best, bursts={role: each for role, each in told.items() if each is not None})


@dataclass(frozen=True, slots=True)
class _Game:
    """The parts of the past that are played, and by role what is late and what to try."""

    history: DemandHistory
    parts: Sequence[Part]
    weights: Sequence[float]
    late: Mapping[Role, Late]
    floors: Mapping[Role, range]

    def tried(self, fleets: Mapping[Role, Fleet]) -> dict[Role, list[Option]]:
        """Each floor below each role's fleet."""
        return {
            role: options(
                self.parts,
                self.weights,
                role=role,
                late=self.late[role],
                fleet=fleet,
                floors=self.floors[role],
            )
            for role, fleet in fleets.items()
        }

    def followed(
        self, *, hold_s: float, lead_s: Mapping[Role, float], most: Mapping[Role, int]
    ) -> dict[Role, list[Option]]:
        """Each floor below fleets that follow the forecast and keep for so long what they had."""
        return self.tried(
            {
                role: following(
                    self.history, role, hold_s=hold_s, lead_s=lead_s[role], most=most[role]
                )
                for role in Role
            }
        )


@dataclass(frozen=True, slots=True)
class _Played:
    """One policy, played. `hold_s` is `None` for a fleet that never moves."""

    hold_s: float | None
    prefill: Option
    decode: Option

    @property
    def floors(self) -> dict[Role, int]:
        return {Role.PREFILL: self.prefill.floor, Role.DECODE: self.decode.floor}

    @property
    def late(self) -> float:
        return self.prefill.late + self.decode.late

    def gpu_s(self, gpus: Mapping[Role, int]) -> float:
        prefill_s, decode_s = self.prefill.replica_s, self.decode.replica_s
        return prefill_s * gpus[Role.PREFILL] + decode_s * gpus[Role.DECODE]

    def is_like(self, cover: Cover) -> bool:
        """Whether this is the insurance in force."""
        same = cover.steady == (self.hold_s is None) and cover.hold_s == (self.hold_s or 0.0)
        return same and cover.floors == self.floors

    def is_within(self, short: Short) -> bool:
        """Whether it holds no more, for no longer, than what was not enough."""
        as_long = (FOR_EVER_S if self.hold_s is None else self.hold_s) <= short.hold_s
        return as_long and all(floor <= short.floors[r] for r, floor in self.floors.items())

    def insures_no_more(self, cover: Cover) -> bool:
        """Whether that insurance held as much, for as long."""
        return self.is_within(short_as(cover, at_s=0))


def _pairs(hold_s: float | None, by_role: Mapping[Role, Sequence[Option]]) -> list[_Played]:
    return [
        _Played(hold_s, prefill, decode)
        for prefill in by_role[Role.PREFILL]
        for decode in by_role[Role.DECODE]
    ]


def _past(before: Cover, ready_s: int) -> int | None:
    """Since when `before` is judged; a clock that was set back leaves a time to come."""
    return None if before.since_s is None else min(before.since_s, ready_s)


def _fits(spec: PoolSpec, floors: Mapping[Role, int]) -> bool:
    """Whether the GPU budget has room for so many: what it has no room for insures nothing."""
    return spec.gpu_budget is None or gpus_of(spec, floors) <= spec.gpu_budget


def _floors(
    bounds: RoleSpec, parts: Sequence[Part], role: Role, busy: float, *, level: bool
) -> range:
    """Counts to try, up to what carries the highest load with ease; a few of a large fleet.

    Level traffic never needs fewer than its load keeps busy.
    """
    least = max(1, bounds.min_replicas)
    load = busy * rate_of(max(part.steps[role] for part in parts))
    if level:
        least = max(least, min(int(load / FULL_LOAD), bounds.max_replicas))
    most = min(max(least, bounds.max_replicas), max(least, ceil(load / EASY_LOAD)) + 1)
    step = 1
    while (most - least) // step > MOST_FLOORS:
        step *= 2
    return range(least, most + 1, step)
