"""The insurance: what recurs is held where it pays, what ended is released, nothing is for ever."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.objective.insurance import Cover, most_of, recurs, within_record
from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN
from tandem_operator.core.role import Role
from tests.unit.core.bursts import (
    HIGH_RPS,
    LOW_RPS,
    SERVICE_S,
    WORK,
    Span,
    covered,
    lived,
    lulls_and_bursts,
)
from tests.unit.core.scene import make_spec

HOUR_S = 3600.0
CALM: list[Span] = [(LOW_RPS, HOUR_S)]
NEEDED = 4
"""Prefill replicas that a burst keeps busy."""


def test_bursts_that_recur_are_held_where_a_start_takes_longer_than_they_do() -> None:
    cover = covered(lulls_and_bursts(6), lead_s=90.0)

    assert cover.recurring
    assert cover.floor(Role.PREFILL) >= NEEDED
    assert cover.late_share < 0.05 < cover.bare_share


def test_no_more_is_insured_than_the_gpu_budget_has_room_for() -> None:
    bursts = lulls_and_bursts(6)
    free = covered(bursts, lead_s=90.0)
    whole = sum(free.floor(role) for role in Role)

    tight = covered(bursts, lead_s=90.0, spec=make_spec(high=12, gpu_budget=whole - 1))

    assert sum(tight.floor(role) for role in Role) < whole
    assert tight.floor(Role.PREFILL) > 1


def test_nothing_is_insured_by_a_role_that_another_owner_scales() -> None:
    external = make_spec(high=12, managed={Role.PREFILL: False})

    cover = covered(lulls_and_bursts(6), lead_s=90.0, spec=external)

    assert cover.floor(Role.PREFILL) == 1
    assert cover.floor(Role.DECODE) <= covered(lulls_and_bursts(6), lead_s=90.0).floor(Role.DECODE)


def test_what_a_role_of_another_owner_costs_changes_no_insurance() -> None:
    external = make_spec(high=12, managed={Role.PREFILL: False})
    dear = {
        **external.roles,
        Role.PREFILL: replace(external.roles[Role.PREFILL], gpus_per_replica=64),
    }
    bursts = lulls_and_bursts(6, lull_s=100.0)
    even = replace(
        WORK,
        busy=dict.fromkeys(Role, SERVICE_S[Role.PREFILL]),
        late_share=dict.fromkeys(Role, WORK.late_share[Role.PREFILL]),
    )

    found = covered(bursts, spec=replace(external, roles=dear), work=even)

    assert found == covered(bursts, spec=external, work=even)


def test_it_is_told_which_bursts_a_floor_is_for() -> None:
    bursts = covered(lulls_and_bursts(6)).bursts[Role.PREFILL]

    assert bursts.times == 6
    assert bursts.rate_rps == pytest.approx(HIGH_RPS, rel=0.05)


def test_even_traffic_needs_no_insurance() -> None:
    cover = covered(CALM)

    assert not cover.recurring
    assert [cover.floor(role) for role in Role] == [1, 1]


def test_level_traffic_may_be_followed_where_that_is_cheaper() -> None:
    # What the forecast wanted of decode was one; a steady fleet would have to hold as many.
    cover = covered(CALM)

    assert cover.floor(Role.DECODE) == 1


def test_two_minutes_tell_too_little_to_insure() -> None:
    assert covered([(LOW_RPS, 60.0), (HIGH_RPS, 40.0)]).floors == {}


def test_one_burst_does_not_recur() -> None:
    assert not covered([(LOW_RPS, 600.0), (HIGH_RPS, 60.0), (LOW_RPS, 600.0)]).recurring


def test_bursts_out_of_silence_recur_though_each_is_lower_than_the_first() -> None:
    silence = (0.0, 240.0)
    falling: list[Span] = [(LOW_RPS, 120.0)]
    for rate in (2.0 * HIGH_RPS, HIGH_RPS, HIGH_RPS):
        falling += [silence, (rate, 60.0)]

    first, third = covered([*falling[:3], silence]), covered([*falling, silence])

    assert not recurs(lived(falling))
    assert not first.recurring
    assert third.recurring
    assert third.floor(Role.PREFILL) > 1


def test_a_climb_that_surprises_twice_does_not_recur() -> None:
    climb = [(rate, 120.0) for rate in (2.0, 8.0, 20.0, 40.0)]

    assert not covered(climb).recurring


def test_what_came_once_is_not_insured_and_what_came_twice_is() -> None:
    burst: list[Span] = [(LOW_RPS, 1200.0), (HIGH_RPS, 20.0)]

    once, twice = covered([*burst, (LOW_RPS, 300.0)]), covered([*burst * 2, (LOW_RPS, 300.0)])

    assert [once.floor(role) for role in Role] == [1, 1]
    assert twice.floor(Role.PREFILL) > 1


def test_what_came_once_is_insured_where_it_spent_the_budget_several_times() -> None:
    burst: list[Span] = [(LOW_RPS, 600.0), (HIGH_RPS, 60.0), (LOW_RPS, 300.0)]

    assert covered(burst).floor(Role.PREFILL) >= NEEDED
    assert covered(burst, spec=make_spec(high=12, attainment=0.8)).floor(Role.PREFILL) == 1


def test_what_comes_back_and_spent_the_budget_is_insured_though_each_time_missed_little() -> None:
    bursts = lived(lulls_and_bursts(6))
    # A forecast that had what a burst keeps busy, and no spare: few of each burst were late.
    wants = {Role.PREFILL: (NEEDED,) * len(bursts), Role.DECODE: (1,) * len(bursts)}
    history = replace(bursts, wants=wants)

    kept, spent = (
        covered([], history=history, allowed_late=0.01, lead_s=20.0, overspent=overspent)
        for overspent in (False, True)
    )

    assert kept.floor(Role.PREFILL) == 1
    assert spent.floor(Role.PREFILL) > NEEDED
    assert spent.late_share < 0.01 < spent.bare_share


def test_an_insurance_against_one_burst_is_released_as_calm_traffic_comes() -> None:
    burst: list[Span] = [(LOW_RPS, 600.0), (HIGH_RPS, 60.0)]

    held = covered([*burst, (LOW_RPS, 300.0)])

    assert covered([*burst, (LOW_RPS, HOUR_S)], before=held).floor(Role.PREFILL) == 1


def test_a_burst_with_a_short_dip_in_it_is_one() -> None:
    dipped: list[Span] = [(LOW_RPS, 600.0), (HIGH_RPS, 40.0), (LOW_RPS, 20.0), (HIGH_RPS, 40.0)]

    assert covered([*dipped, (LOW_RPS, 300.0)]).floor(Role.PREFILL) == 1


def test_a_pattern_that_stopped_is_released() -> None:
    held = covered(lulls_and_bursts(6))

    after = covered([*lulls_and_bursts(6), (LOW_RPS, 2 * HOUR_S)], before=held)

    assert [after.floor(role) for role in Role] == [1, 1]
    # The bursts are forgotten with what they needed: more load than the calm's is no longer usual.
    assert after.record == LOW_RPS * BUCKET_S


def test_what_stopped_is_released_step_by_step() -> None:
    after = [
        covered([*lulls_and_bursts(6), (LOW_RPS, hours * HOUR_S)]).floor(Role.PREFILL)
        for hours in (0.5, 1.0, 2.0)
    ]

    assert after == sorted(after, reverse=True)
    assert after[0] > after[-1]


def test_nothing_is_held_through_long_lulls_for_rare_small_bursts() -> None:
    rare: list[Span] = [(0.0, 6000.0), (6.0, 20.0)] * 2

    cover = covered(rare)

    assert cover.late_share > 0.05
    assert cover.floor(Role.PREFILL) == 1


def test_less_allowed_never_holds_less() -> None:
    spans = lulls_and_bursts(4, lull_s=600.0)
    loose, tight = (covered(spans, allowed_late=late) for late in (0.4, 0.005))

    assert tight.late_share <= loose.late_share


def test_a_floor_stays_within_the_bounds_of_the_role() -> None:
    cover = covered(lulls_and_bursts(6), spec=make_spec(low=2, high=3))

    assert cover.floor(Role.PREFILL) == 3
    assert cover.floor(Role.DECODE) == 2


def test_a_fleet_is_kept_at_least_as_long_as_the_user_says() -> None:
    spec = make_spec(high=12, stabilization_s=1800.0)

    cover = covered(lulls_and_bursts(6), spec=spec, lead_s=5.0)

    # Kept for half an hour, no lull is long enough to need a floor of its own.
    assert cover.late_share < 0.05


def like(cover: Cover) -> tuple[dict[Role, int], bool, float]:
    return dict(cover.floors), cover.steady, cover.hold_s


def test_one_more_burst_of_the_same_kind_changes_nothing() -> None:
    first = covered(lulls_and_bursts(6))

    again = covered(lulls_and_bursts(7), before=first)

    assert like(again) == like(first)
    assert again.bursts == first.bursts


def test_the_insurance_in_force_stays_where_another_is_hardly_cheaper() -> None:
    best = covered(lulls_and_bursts(6))
    near = replace(best, steady=False, hold_s=0.0)

    assert like(near) != like(best)
    assert like(covered(lulls_and_bursts(6), before=near)) == like(near)


def test_a_much_cheaper_insurance_replaces_the_one_in_force() -> None:
    dear = Cover(floors=dict.fromkeys(Role, 6), steady=True)

    assert like(covered(CALM, before=dear)) != like(dear)


def test_what_was_late_counts_once_as_much_could_be_ready() -> None:
    first = covered(lulls_and_bursts(6))
    less = replace(first, floors=dict.fromkeys(Role, 1), steady=False, since_s=7)
    more = replace(first, floors=dict.fromkeys(Role, 12), since_s=7)

    assert covered(lulls_and_bursts(6), before=less).since_s == (first.end_s or 0) + 60
    assert covered(lulls_and_bursts(6), before=more).since_s == 7


def test_within_the_record_no_role_holds_more_than_the_record_needed() -> None:
    spans = lulls_and_bursts(6)
    cover = covered(spans, lead_s=20.0)

    assert cover.record == max(lived(spans).requests)
    assert most_of(cover, cover.record, busy=SERVICE_S, tokens=WORK.mean_tokens) == cover.most
    assert cover.most[Role.PREFILL] >= NEEDED
    assert most_of(cover, 2 * cover.record, busy=SERVICE_S, tokens=WORK.mean_tokens) == {}


def test_a_level_that_came_once_is_no_bound() -> None:
    once = covered([(LOW_RPS, 600.0), (HIGH_RPS, 60.0), (LOW_RPS, 300.0)])

    assert once.floor(Role.PREFILL) > 1
    assert not once.steady
    assert once.most == {}


def test_a_forecast_that_overshoots_makes_following_no_dearer() -> None:
    spans: list[Span] = [*[(LOW_RPS, 800.0), (HIGH_RPS, 200.0)] * 4, (LOW_RPS, 200.0)]
    usual = lived(spans)
    high = {role: max(wants) for role, wants in usual.wants.items()}
    wild = replace(
        usual,
        wants={
            role: tuple(20 * n if n == high[role] else n for n in wants)
            for role, wants in usual.wants.items()
        },
    )

    # Of what was forecast, no more is held than the level needs: following stays cheaper.
    assert not covered(spans, lead_s=20.0, allowed_late=0.3, history=wild).steady


def test_a_role_whose_requests_cost_more_than_before_may_hold_more_than_before() -> None:
    spans = lulls_and_bursts(6)
    longer = {**SERVICE_S, Role.PREFILL: 1.5 * SERVICE_S[Role.PREFILL]}

    most = most_of(covered(spans), LOW_RPS, busy=longer, tokens=WORK.mean_tokens)

    assert Role.PREFILL not in most
    assert Role.DECODE in most


def times_high(*levels: float) -> Sequence[Span]:
    return [(level, 60.0) for level in levels]


@pytest.mark.parametrize(
    ("levels", "recurring"),
    [
        ((1.0, 9.0, 1.0, 9.0, 1.0), True),
        ((1.0, 9.0, 1.0, 9.0), False),
        ((1.0, 9.0, 8.0, 9.0, 1.0), False),
        ((5.0, 5.0, 5.0, 5.0), False),
        ((1.0, 9.0, 1.0, 4.0, 1.0), False),
    ],
    ids=["twice and left", "the second goes on", "one with a dent", "even", "the second is small"],
)
def test_bursts_recur_once_two_as_high_came_and_went(
    levels: tuple[float, ...], recurring: bool
) -> None:
    assert recurs(lived(times_high(*levels))) is recurring


def test_a_hole_is_no_lull() -> None:
    history = lived([(9.0, 60.0)] * 3)
    tokens = list(history.prompt_tokens)
    tokens[2] = tokens[5] = UNKNOWN

    assert not recurs(replace(history, prompt_tokens=tuple(tokens)))


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_load_is_within_the_record_up_to_chance(record: int, requests: int) -> None:
    if requests <= record:
        assert within_record(record, requests)
    if requests > record + 3.1 * max(1.0, record**0.5):
        assert not within_record(record, requests)
