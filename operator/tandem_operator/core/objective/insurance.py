"""The insurance in force against bursts that come back, and whether today is like its history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, pstdev, pvariance

from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import RoleSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# How long a fleet that never moves keeps what it holds.
FOR_EVER_S = 1e9


@dataclass(frozen=True, slots=True)
class Short:
    """An insurance that proved too little at `at_s`; its `hold_s` has no end if it never moved."""

    floors: Mapping[Role, int]
    hold_s: float
    at_s: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What of the spec an insurance was chosen under."""

    slo: Slo
    roles: Mapping[Role, RoleSpec]
    gpu_budget: int | None


@dataclass(frozen=True, slots=True)
class Cover:
    """The insurance that is in force.

    Attributes:
        floors: by role, what is held through lulls.
        steady: whether the floors are also the most, while no more load comes than came before.
        most: by role, what nobody of the history would have been late with: more is not held while
            no more load comes than came before.
        busy: by role, replicas that one request per second kept busy then; `tokens`: those that
            the role worked on for one.
        since_s: since when no less than it insures now could be ready.
        hold_s: how long what was needed is kept.
        end_s: the end of the history that it was looked for on last.
        late_share: share late in the play with it; `bare_share` without any.
        recurring: whether the highest load, or what the forecast missed, came more than once.
        bursts: by role, what one replica less would not have been enough for.
        record: the most requests in the time of a bucket that it was chosen for.
        level_s: when it was chosen for level traffic; `None`: it is for traffic that moves.
        short: the one before that was not enough.
        terms: the spec that all of this is for; `None`: not known.
    """

    floors: Mapping[Role, int] = field(default_factory=dict)
    steady: bool = False
    hold_s: float = 0.0
    end_s: int | None = None
    late_share: float = 0.0
    bare_share: float = 0.0
    recurring: bool = False
    bursts: Mapping[Role, Bursts] = field(default_factory=dict)
    most: Mapping[Role, int] = field(default_factory=dict)
    busy: Mapping[Role, float] = field(default_factory=dict)
    tokens: Mapping[Role, float] = field(default_factory=dict)
    since_s: int | None = None
    record: int = 0
    level_s: int | None = None
    short: Short | None = None
    terms: Terms | None = None

    def floor(self, role: Role) -> int:
        """What is held of a role at least."""
        return max(1, self.floors.get(role, 1))


def recurs(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Whether the highest load of the history was reached and left again more than once."""
    numbers = tuning.objective
    known = [tokens for tokens in history.prompt_tokens if tokens >= 0]
    record, times, high = max(known, default=0), 0, False
    for tokens in known:
        if tokens >= numbers.record_share * record:
            high = True
        elif tokens < numbers.dip_share * record:
            times, high = times + high, False
    return times >= numbers.often_times


def is_level(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Whether the last hour's counts vary hardly more than chance does, and its tokens stay so."""
    numbers = tuning.objective
    lately = history.requests[-(numbers.level_window_s // BUCKET_S) :]
    known = [count for count in lately if count != UNKNOWN]
    if len(known) * BUCKET_S < numbers.least_level_s or not any(known):
        return False
    level = pvariance(known) <= numbers.level_dispersion_ratio * fmean(known)
    return level and not _drifts(history, tuning=tuning)


def _drifts(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Whether prompt tokens are surely others lately, or in the second half, than before."""
    numbers = tuning.objective
    lately = history.prompt_tokens[-(numbers.level_window_s // BUCKET_S) :]
    tokens = [n for n in lately if n != UNKNOWN]
    return any(
        _differ(tokens[:-count], tokens[-count:], tuning=tuning)
        for count in (numbers.lately_s // BUCKET_S, len(tokens) // 2)
        if 0 < count <= len(tokens) - count
    )


def _differ(before: Sequence[int], after: Sequence[int], *, tuning: Tuning = TUNING) -> bool:
    numbers = tuning.objective
    mean = fmean(before)
    chance = pstdev(before) * sqrt(1.0 / len(before) + 1.0 / len(after))
    return abs(fmean(after) - mean) > max(
        numbers.drift_deviations * chance, numbers.drift_share * mean
    )


def within_record(record: int, requests: float, *, tuning: Tuning = TUNING) -> bool:
    """Whether `requests` in the time of a bucket are no more than came before, chance allowed."""
    return requests <= record + tuning.objective.peak_deviations * sqrt(max(1.0, record))


def most_of(
    cover: Cover,
    requests: float,
    *,
    busy: Mapping[Role, float],
    tokens: Mapping[Role, float],
    tuning: Tuning = TUNING,
) -> dict[Role, int]:
    """By role, the most that is worth holding now.

    `requests` came in the time of a bucket. `busy` is what one per second keeps busy today, and
    `tokens` what a role works on for one.
    """
    if not within_record(cover.record, requests, tuning=tuning):
        return {}
    most, numbers = {}, tuning.objective
    for role, count in cover.most.items():
        longer = tokens[role] > numbers.longer_ratio * cover.tokens.get(role, 0.0)
        heavier = numbers.heavier_ratio
        if cover.level_s is not None and not longer:
            heavier = numbers.heavier_if_level_ratio
        if busy[role] <= heavier * cover.busy.get(role, 0.0):
            most[role] = count
    return most
