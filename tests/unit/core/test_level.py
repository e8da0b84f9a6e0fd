"""Level traffic: what it is, the fleet that serves it, and what asks for another one."""

from dataclasses import replace
from random import Random

import pytest

from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import (
    Cover,
    answers_drift,
    has_risen,
    is_level,
    most_of,
    within_record,
)
from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN
from tandem_operator.core.role import Role
from tests.unit.core.bursts import (
    HIGH_RPS,
    LOW_RPS,
    SERVICE_S,
    TOKENS,
    WORK,
    Span,
    covered,
    lived,
)
from tests.unit.core.scene import make_spec

HOUR_S = 3600.0
LEVEL: list[Span] = [(12.0, HOUR_S)]
"""2.4 prefill replicas are busy."""


def test_a_fleet_for_level_traffic_stays_whatever_a_new_look_would_say() -> None:
    first = covered(LEVEL)
    dearer = replace(WORK, busy={**SERVICE_S, Role.PREFILL: 1.1 * SERVICE_S[Role.PREFILL]})

    again = covered(LEVEL, before=first, allowed_late=0.001, work=dearer)

    assert again == first


def test_a_clock_set_back_asks_for_a_new_look_at_level_traffic() -> None:
    later = replace(covered(LEVEL), floors={Role.PREFILL: 9, Role.DECODE: 9})
    ahead = replace(later, level_s=(later.level_s or 0) + 1800)

    assert covered(LEVEL, before=ahead).floors == covered(LEVEL).floors


def test_an_hour_without_any_forecast_leaves_the_insurance_as_it_is() -> None:
    history = lived([(HIGH_RPS, 600.0), *LEVEL])
    blind = int(HOUR_S) // BUCKET_S
    wants = {role: (*each[:-blind], *[UNKNOWN] * blind) for role, each in history.wants.items()}
    before = Cover(floors={Role.PREFILL: 4, Role.DECODE: 2})

    cover = covered([], before=before, history=replace(history, wants=wants))

    assert cover == replace(before, end_s=history.end_s)


def test_few_requests_that_come_by_chance_are_level_and_none_at_all_are_not() -> None:
    def level(counts: tuple[int, ...]) -> bool:
        tokens = tuple(TOKENS * count for count in counts)
        return is_level(replace(lived(LEVEL), requests=counts, prompt_tokens=tokens))

    # Two in the mean, and none in some buckets.
    assert level((0, 2, 4, 2, 1, 3) * 30)
    assert not level((0, 0, 12, 0, 0, 0) * 30)
    assert not level((0,) * 180)


@pytest.mark.parametrize(("longer", "level"), [(1.04, True), (1.06, False), (0.96, True)])
def test_prompts_that_surely_changed_by_less_than_a_twentieth_are_level(
    longer: float, level: bool
) -> None:
    history = lived(LEVEL)
    lately = tuple(round(longer * tokens) for tokens in history.prompt_tokens[-6:])
    changed = replace(history, prompt_tokens=(*history.prompt_tokens[:-6], *lately))

    assert is_level(changed) is level


@pytest.mark.parametrize(("record", "most"), [(0, 3), (1, 4), (100, 130)])
def test_no_more_came_than_before_within_what_chance_adds(record: int, most: int) -> None:
    assert within_record(record, most)
    assert not within_record(record, most + 1)


@pytest.mark.parametrize(
    ("more", "lasts_s", "risen"),
    [
        (1.5, 20, True),
        (1.5, 5, False),
        (1.15, 20, False),
        (1.2, 60, True),
        (1.1, 60, False),
        (1.1, 180, True),
        (0.5, 180, False),
    ],
)
def test_a_smaller_rise_of_level_traffic_is_sure_after_a_longer_time(
    more: float, lasts_s: int, risen: bool
) -> None:
    counts = [12.0] * 1000 + [more * 12.0] * lasts_s

    assert has_risen(lived(LEVEL), counts) is risen


def test_a_rise_is_no_news_where_counts_always_varied_as_much() -> None:
    varied = replace(lived(LEVEL), requests=(120, 360) * 90)

    assert has_risen(lived(LEVEL), [18.0] * 60)
    assert not has_risen(varied, [18.0] * 60)


def test_a_rise_needs_a_past_to_rise_above() -> None:
    young = lived([(12.0, 340.0)])
    unseen = replace(lived(LEVEL), requests=(UNKNOWN,) * 180)

    assert not has_risen(young, [90.0] * 60)
    assert not has_risen(unseen, [90.0] * 60)
    assert has_risen(lived([(12.0, 360.0)]), [90.0] * 60)


@pytest.mark.parametrize(("longer", "level"), [(1.0, True), (1.2, False), (0.8, False)])
def test_prompts_that_grow_or_shrink_lately_are_not_level(longer: float, level: bool) -> None:
    random = Random(1)
    history = lived(LEVEL)
    tokens = [round(random.gauss(TOKENS * 240, TOKENS * 8)) for _ in history.requests]
    tokens[-6:] = [round(longer * each) for each in tokens[-6:]]

    assert is_level(replace(history, prompt_tokens=tuple(tokens))) is level


def test_a_slow_drift_over_half_of_the_hour_is_not_level() -> None:
    history = lived(LEVEL)
    half = len(history) // 2
    tokens = [*history.prompt_tokens[:half], *(1.08 * n for n in history.prompt_tokens[half:])]

    assert not is_level(replace(history, prompt_tokens=tuple(round(n) for n in tokens)))


def answered(*, longer: float, lately: int, seed: int = 1) -> tuple[int, ...]:
    """Return an hour of mean answers, of which the latest buckets have `longer` ones."""
    random = Random(seed)
    means = [random.gauss(300.0, 6.0) for _ in range(int(HOUR_S) // BUCKET_S)]
    means[-lately:] = [longer * mean for mean in means[-lately:]]
    return tuple(round(mean) for mean in means)


@pytest.mark.parametrize("lately", [1, 9, 90])
@pytest.mark.parametrize(
    ("longer", "drift"), [(1.0, False), (1.05, False), (1.5, True), (0.5, True)]
)
def test_answers_drift_once_their_mean_surely_changed(
    longer: float, lately: int, drift: bool
) -> None:
    history = lived(LEVEL)

    changed = replace(history, output_tokens=answered(longer=longer, lately=lately))

    assert answers_drift(changed) is drift
    assert is_level(changed)


def test_answers_of_a_young_or_an_older_history_do_not_drift() -> None:
    assert not answers_drift(lived(LEVEL))
    assert not answers_drift(replace(lived(LEVEL), output_tokens=(UNKNOWN,) * 180))
    assert not answers_drift(replace(lived(LEVEL), output_tokens=(300,) * 9))


def test_every_count_is_tried_of_a_fleet_for_much_level_traffic() -> None:
    # 9.4 prefill replicas are busy.
    assert covered([(47.0, HOUR_S)], spec=make_spec(high=40)).floor(Role.PREFILL) == 10


STRICT = make_spec(high=12, attainment=0.99)
"""Three replicas make .8 % of the level traffic late in the play."""


@pytest.mark.parametrize(("allowed_late", "replicas"), [(0.012, 3), (0.009, 4)])
def test_a_fleet_for_level_traffic_may_use_most_of_what_is_allowed(
    allowed_late: float, replicas: int
) -> None:
    cover = covered(LEVEL, spec=STRICT, allowed_late=allowed_late)

    assert cover.floor(Role.PREFILL) == replicas


@pytest.mark.parametrize(("allowed_late", "replicas"), [(0.0085, 3), (0.007, 4)])
def test_an_insurance_that_misses_more_than_is_allowed_in_the_play_does_not_stay(
    allowed_late: float, replicas: int
) -> None:
    before = replace(covered(LEVEL), level_s=None)

    cover = covered(LEVEL, spec=STRICT, before=before, allowed_late=allowed_late)

    assert cover.floor(Role.PREFILL) == replicas


def test_an_insurance_is_judged_from_a_time_that_comes_where_the_clock_was_set_back() -> None:
    first = covered(LEVEL)
    ahead = replace(first, level_s=None, since_s=(first.end_s or 0) + 7200)

    assert covered(LEVEL, before=ahead).since_s == (first.end_s or 0) + 60


@pytest.mark.parametrize(
    ("heavier", "longer", "capped"),
    [(1.3, 1.05, True), (1.5, 1.05, False), (1.3, 1.2, False), (1.05, 1.2, True)],
    ids=["a slow minute", "slow engines", "longer requests", "hardly dearer"],
)
def test_a_fleet_for_level_traffic_is_a_bound_while_requests_cost_about_as_much(
    heavier: float, longer: float, capped: bool
) -> None:
    cover = covered(LEVEL)
    busy = {role: heavier * each for role, each in SERVICE_S.items()}
    tokens = {role: longer * each for role, each in WORK.mean_tokens.items()}

    assert (most_of(cover, LOW_RPS, busy=busy, tokens=tokens) == cover.most) is capped


def test_a_fleet_that_proved_short_is_not_taken_again_within_the_hour() -> None:
    first = covered(LEVEL)

    larger = covered(LEVEL, before=first, proof=Proof.SHORT)
    later = replace(larger, level_s=None)
    assert larger.short is not None

    assert larger.floor(Role.PREFILL) > first.floor(Role.PREFILL)
    assert covered(LEVEL, before=later).floors == larger.floors
    long_ago = replace(larger.short, at_s=(larger.end_s or 0) - int(HOUR_S) - 20)
    forgotten = replace(later, short=long_ago)
    assert covered(LEVEL, before=forgotten).floors == first.floors


def test_an_ample_fleet_gives_back_one_replica_and_is_judged_anew() -> None:
    first = covered(LEVEL)
    ample = replace(first, floors={Role.PREFILL: 6, Role.DECODE: 2}, since_s=1)

    less = covered(LEVEL, before=ample, proof=Proof.AMPLE)

    assert sum(less.floors.values()) == 7
    assert less.since_s == (first.end_s or 0) + 60


def test_level_traffic_is_served_by_a_fleet_that_never_moves() -> None:
    # 2.4 prefill replicas are busy; the forecast wanted four of them all the time.
    cover = covered([(12.0, HOUR_S)])

    assert cover.steady
    assert cover.floor(Role.PREFILL) == 3
    assert cover.late_share < 0.05
    # What comes all the time is no burst, and is told as none.
    assert cover.bursts == {}


@pytest.mark.parametrize(
    ("spans", "level"),
    [
        ([(LOW_RPS, 600.0)], True),
        ([(LOW_RPS, 500.0)], False),
        ([(0.0, 900.0)], False),
        ([(LOW_RPS, 600.0), (2 * LOW_RPS, 600.0)], False),
        ([(HIGH_RPS, 600.0), (LOW_RPS, 3600.0)], True),
    ],
    ids=["even", "too short to tell", "nothing came", "a step", "a step more than an hour ago"],
)
def test_traffic_is_level_where_counts_vary_by_chance_alone(spans: list[Span], level: bool) -> None:
    assert is_level(lived(spans)) is level
