"""The insurance in force against recurring bursts, and whether the present is like its history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import fmean, pstdev, pvariance

from tandem_operator.core.observe.demand_history import (
    BUCKET_S,
    UNKNOWN,
    DemandHistory,
    vary_by_chance,
)
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import RoleSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# Time for which a fleet that never changes keeps its replicas.
FOR_EVER_S = 1e9


@dataclass(frozen=True, slots=True)
class Short:
    """An insurance that proved too small at `at_s`; `hold_s` is endless if it never changed."""

    floors: Mapping[Role, int]
    hold_s: float
    at_s: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The part of the spec under which an insurance was chosen."""

    slo: Slo
    roles: Mapping[Role, RoleSpec]
    gpu_budget: int | None


@dataclass(frozen=True, slots=True)
class Cover:
    """The insurance in force.

    Attributes:
        floors: counts that are held through lulls, by role.
        steady: whether the floors are also the maximum, while no more load comes than before.
        most: by role, the count with which no request of the history would have been late. It is
            the maximum while no more load comes than before.
        busy: by role, replicas that one request per second kept busy then; `tokens`: the tokens
            of one request that the role worked on.
        since_s: time since which this or more could be ready.
        hold_s: how long replicas are kept after they were needed.
        end_s: the end of the history at the last look.
        late_share: late share of the replay with it; `bare_share` without any.
        recurring: whether the highest load, or a surprise, came more than once.
        bursts: by role, the bursts for which one replica less would not have been enough.
        record: the most requests in a bucket of its history.
        level_s: when it was chosen for level traffic; `None`: it is for changing traffic.
        short: the insurance before it that was too small.
        terms: the spec of all this; `None`: not known.
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
        """Return the least count of a role."""
        return max(1, self.floors.get(role, 1))

    def without(self, role: Role) -> "Cover":
        """Return the insurance of the other role alone."""
        return replace(
            self,
            floors={r: n for r, n in self.floors.items() if r is not role},
            most={r: n for r, n in self.most.items() if r is not role},
        )


def recurs(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Return whether the highest load of the history came and went more than once."""
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
    """Return whether the last hour's counts vary hardly more than chance, without a drift."""
    lately = history.known_requests(tuning.objective.level_window_s)
    return vary_by_chance(lately, tuning=tuning) and not _drifts(history, tuning=tuning)


def _drifts(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Return whether prompt tokens surely changed, recently or in the second half."""
    numbers = tuning.objective
    lately = history.prompt_tokens[-(numbers.level_window_s // BUCKET_S) :]
    return _changed(
        [n for n in lately if n != UNKNOWN],
        lately=numbers.lately_s // BUCKET_S,
        least_share=numbers.drift_share,
        tuning=tuning,
    )


def answers_drift(history: DemandHistory, *, tuning: Tuning = TUNING) -> bool:
    """Return whether the length of answers surely changed, just now or in the second half."""
    numbers = tuning.objective
    lately = history.output_tokens[-(numbers.level_window_s // BUCKET_S) :]
    means = [n for n in lately if n != UNKNOWN]
    # Each one is the mean of some minutes: its neighbours are mostly of the same answers.
    apart = means[:: -(tuning.learn.outputs_window_s // BUCKET_S)][::-1]
    return _changed(apart, lately=1, least_share=numbers.longer_ratio - 1.0, tuning=tuning)


def _changed(
    values: Sequence[int], *, lately: int, least_share: float, tuning: Tuning = TUNING
) -> bool:
    return any(
        _differ(values[:-count], values[-count:], least_share=least_share, tuning=tuning)
        for count in (lately, len(values) // 2)
        if 0 < count <= len(values) - count
    )


def _differ(
    before: Sequence[int], after: Sequence[int], *, least_share: float, tuning: Tuning = TUNING
) -> bool:
    mean = fmean(before)
    chance = pstdev(before) * sqrt(1.0 / len(before) + 1.0 / len(after))
    return abs(fmean(after) - mean) > max(
        tuning.objective.drift_deviations * chance, least_share * mean
    )


def has_risen(history: DemandHistory, counts: Sequence[float], *, tuning: Tuning = TUNING) -> bool:
    """Return whether surely more requests came lately than in the last hour before.

    `counts` are the requests per second. A single bucket shows a slow rise only late.
    """
    numbers = tuning.objective
    longest = max(numbers.risen_s) // BUCKET_S
    known = history.known_requests(numbers.level_window_s, without=longest)
    if len(known) < longest:
        return False
    mean = fmean(known)
    noise = max(mean, pvariance(known))
    return any(
        sum(counts[-size_s:]) - times * mean > numbers.risen_deviations * sqrt(times * noise)
        for size_s in numbers.risen_s
        for times in (size_s / BUCKET_S,)
        if size_s <= len(counts)
    )


def within_record(record: int, requests: float, *, tuning: Tuning = TUNING) -> bool:
    """Return whether `requests` in one bucket are no more than ever before, apart from chance."""
    return requests <= record + tuning.objective.peak_deviations * sqrt(max(1.0, record))


def most_of(
    cover: Cover,
    requests: float,
    *,
    busy: Mapping[Role, float],
    tokens: Mapping[Role, float],
    tuning: Tuning = TUNING,
) -> dict[Role, int]:
    """Return the highest count that is worth holding now, by role.

    `requests` came in one bucket. `busy` is the number of replicas that one request per second
    keeps busy now. `tokens` are the tokens of one request that a role works on.
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
