"""Choose the insurance against the pool's own bursts.

The history is replayed under a few policies. A policy is a floor for each role, and how long the
fleet keeps replicas after it needed them, up to a fleet that never changes. The replay gives the
late requests and the held GPUs. The floor is a newsvendor problem over the real history, and the
time to keep a replica is a ski-rental problem. The cheapest policy inside the error budget is
chosen. Older history counts less, so other traffic soon replaces a pattern that ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from tandem_operator.core.objective.candidates import Game, Played, floors_to_try, pairs
from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import Cover, is_level, recurs
from tandem_operator.core.objective.surprises import is_ruinous, surprises_of
from tandem_operator.core.objective.tried_insurance import one_less, short_of, still_right
from tandem_operator.core.objective.what_if import (
    BucketPart,
    Late,
    bursts_beyond,
    following,
    parts_of,
    unmoved,
)
from tandem_operator.core.observe.demand_history import BUCKET_S, KEPT_S, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Work
from tandem_operator.core.sizing.replica_counts import gpus_of
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


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
    tuning: Tuning = TUNING,
) -> Cover:
    """Return the cheapest insurance that keeps the late share of the history in `allowed_late`.

    `lead_s` is how long a start takes. `before` is in force, and stays if another is hardly
    cheaper. `proof` is the real result of `before`. `overspent`: the budget is used up.
    """
    numbers, size = tuning.objective, len(history)
    level = is_level(history, tuning=tuning)
    if level and still_right(before, history.end_s, proof, tuning=tuning):
        return replace(before, end_s=history.end_s)
    # Level traffic has been level for an hour: earlier traffic no longer counts.
    first = max(0, size - numbers.level_window_s // BUCKET_S) if level else 0
    weights = [
        _weight(size - at, half_life_s=numbers.half_life_s) if at >= first else 0.0
        for at in range(size)
    ]
    parts = tuple(
        part
        for part in parts_of(
            history,
            weights,
            mean_tokens=work.mean_tokens,
            dispersion=work.dispersion,
            tuning=tuning,
        )
        if part.bucket >= first
    )
    if size * BUCKET_S < numbers.least_history_s or not parts:
        return replace(before, end_s=history.end_s)
    requests = sum(part.requests for part in parts)
    gpus = {
        role: spec.roles[role].gpus_per_replica if spec.roles[role].managed else 0 for role in Role
    }
    request_gpu_s = sum(work.busy[role] * gpus[role] for role in Role)
    price = numbers.most_price_ratio * request_gpu_s / max(1e-3, 1.0 - spec.slo.attainment)
    # Where another owner sets the count, nothing can be insured and nothing is paid.
    busy = {role: work.busy[role] if spec.roles[role].managed else 0.0 for role in Role}
    late = {role: Late(work.late_share[role], busy=busy[role], tuning=tuning) for role in Role}
    floors = {
        role: floors_to_try(spec.roles[role], parts, role, busy[role], level=level, tuning=tuning)
        for role in Role
    }
    least = {role: floors[role].start for role in Role}
    bare = {
        role: following(history, role, hold_s=spec.stabilization_s, lead_s=lead_s[role])
        for role in Role
    }
    surprises = surprises_of(
        parts,
        late=late,
        fleets=bare,
        least=least,
        whole=size * BUCKET_S < KEPT_S,
        tuning=tuning,
    )
    # Bursts that return after a silence may be lower each time, and still recur.
    rested = 0 in history.requests[parts[0].bucket : parts[-1].bucket]
    often = surprises >= numbers.often_times
    recurring = recurs(history, tuning=tuning) or (often and rested)
    # A recurring burst that spent the budget is no surprise any more, but it is still worth an
    # insurance.
    worth = level or often or (recurring and overspent)
    if not worth and not (
        surprises
        and is_ruinous(
            parts,
            late=late,
            fleets=bare,
            least=least,
            allowed_late=1.0 - spec.slo.attainment,
            tuning=tuning,
        )
    ):
        # A burst that came once may never come again.
        return Cover(floors=least, end_s=history.end_s, recurring=recurring, terms=before.terms)

    game = Game(
        history=history, parts=parts, weights=weights, late=late, floors=floors, tuning=tuning
    )
    alone = game.tried(dict.fromkeys(Role, unmoved(history)))
    enough = {role: each[-1].floor for role, each in alone.items()}
    played: list[Played] = []
    if not level:
        for hold_s in numbers.holds_s:
            kept_s = max(hold_s, spec.stabilization_s)
            played += pairs(hold_s, game.followed(hold_s=kept_s, lead_s=lead_s, most=enough))
    # Level traffic has no trend to follow: each change would follow chance, one start-up late.
    if recurring or level:
        played += pairs(None, alone)
    played = [each for each in played if _fits(spec, each.floors)] or played[:1]
    short = short_of(before, proof, history.end_s, tuning=tuning)
    if short is not None:
        played = [each for each in played if not each.is_within(short)] or played[-1:]
    sure = numbers.sure_if_level_share if level else numbers.sure_share

    def cost(each: Played) -> float:
        loyalty, allowed = (
            (numbers.loyalty_ratio, numbers.tolerated_ratio)
            if each.is_like(before)
            else (1.0, sure)
        )
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
        tokens=work.mean_tokens,
        record=max(history.requests[parts[0].bucket :], default=0),
        since_s=ready_s if anew or not found.insures_no_more(before) else _past(before, ready_s),
        short=short,
        terms=before.terms,
        level_s=history.end_s if level else None,
    )
    if found.is_like(before):
        # It keeps the bursts for which it was chosen.
        return replace(best, bursts=before.bursts)
    if level:
        return best
    return replace(
        best,
        bursts=_bursts_seen(
            history, parts, work, late=late, floors=best.floors, least=least, tuning=tuning
        ),
    )


def _weight(age: int, *, half_life_s: float) -> float:
    """Return the weight of a bucket that began so many buckets ago."""
    weight: float = 0.5 ** (age * BUCKET_S / half_life_s)
    return weight


def _bursts_seen(
    history: DemandHistory,
    parts: Sequence[BucketPart],
    work: Work,
    *,
    late: Mapping[Role, Late],
    floors: Mapping[Role, int],
    least: Mapping[Role, int],
    tuning: Tuning = TUNING,
) -> dict[Role, Bursts]:
    """Return the bursts for which a role holds its last replica above the `least`, by role."""
    found = {
        role: bursts_beyond(
            history,
            parts,
            role=role,
            late=late[role],
            replicas=floor - 1,
            mean_tokens=work.mean_tokens[role],
            tuning=tuning,
        )
        for role, floor in floors.items()
        if floor > least[role]
    }
    return {role: each for role, each in found.items() if each is not None}


def _past(before: Cover, ready_s: int) -> int | None:
    """Return the time since which `before` is judged; a clock may have been set back."""
    return None if before.since_s is None else min(before.since_s, ready_s)


def _fits(spec: PoolSpec, floors: Mapping[Role, int]) -> bool:
    """Return whether the GPU budget has room for these counts."""
    return spec.gpu_budget is None or gpus_of(spec, floors) <= spec.gpu_budget
