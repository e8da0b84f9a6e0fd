"""The error budget counts each ended request once, and plans for the rest of the budget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import (
    BURN_WINDOWS_S,
    HOUR_S,
    HOURS_KEPT,
    MINUTES_KEPT,
    MONTH_S,
    BudgetLeft,
    ErrorBudget,
    Proof,
)
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import FinishedSecond, RouterReport
from tandem_operator.core.tuning.tuning import TUNING
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.scene import NOW_S, ended, report

LATE_PER_S, ENDED_PER_S = 1, 10
WINDOW_S = TUNING.objective.budget_window_s


def told(now_s: float, *, router: str = "router-1", since_s: float = NOW_S) -> RouterReport:
    """Return a router's report at `now_s`: requests end each second, one in ten of them late."""
    rows = [
        ended(second, ENDED_PER_S, good=ENDED_PER_S - LATE_PER_S)
        for second in range(int(max(since_s, now_s - 1200.0)), int(now_s) + 1)
    ]
    return report(now_s=now_s, finished=rows, router=router)


def test_a_router_that_says_more_were_good_than_ended_earns_no_budget() -> None:
    honest = [ended(int(NOW_S) + 1, 10, good=10), ended(int(NOW_S) + 2, 100, good=40)]
    lying = [*honest, ended(int(NOW_S) + 3, 0, good=2**53)]

    def left(rows: list[FinishedSecond]) -> BudgetLeft:
        budget = ErrorBudget().fold([report(now_s=NOW_S)])
        return budget.fold([report(now_s=NOW_S + 10.0, finished=rows)]).left(0.99)

    assert left(lying) == left(honest)
    assert left(honest).late_requests["5m"] == 60


def looked(*looks_s: float, routers: tuple[str, ...] = ("router-1",)) -> ErrorBudget:
    budget = ErrorBudget().fold([report(now_s=NOW_S, router=name) for name in routers])
    for at_s in looks_s:
        budget = budget.fold([told(NOW_S + at_s, router=name) for name in routers])
    return budget


def spent(late_share: float, *, minutes: int = 60) -> ErrorBudget:
    """Return a budget after minutes of a thousand requests each."""
    good = round(1000 * (1.0 - late_share))
    return ErrorBudget(folded_s=0, finished=(1000,) * minutes, good=(good,) * minutes)


def test_an_ended_request_is_counted_once_however_often_it_is_looked_at() -> None:
    often, once = looked(*range(5, 601, 5)), looked(600)

    assert often == once
    # Second 600 is not over yet, and second 0 ended before the first look's last whole second.
    assert sum(often.finished) == ENDED_PER_S * 600


def test_looks_between_whole_seconds_count_the_same() -> None:
    assert looked(0.4, 1.9, 2.1, 2.9, 7.5, 60.0) == looked(60.0)


def test_the_second_that_is_not_over_is_left_for_the_next_look() -> None:
    budget = looked(10)

    rows = [ended(NOW_S + 10, 7), ended(NOW_S + 11, 1)]
    later = budget.fold([report(now_s=NOW_S + 12, finished=rows)])

    assert sum(later.finished) == sum(budget.finished) + 8


def test_two_routers_are_counted_together() -> None:
    both, one = looked(60, 300, routers=("a", "b")), looked(60, 300)

    assert sum(both.finished) == 2 * sum(one.finished)
    assert sum(both.good) == 2 * sum(one.good)


def test_what_a_router_tells_later_than_the_other_is_counted_once_as_well() -> None:
    budget = ErrorBudget().fold([report(now_s=NOW_S, router=name) for name in "ab"])

    for at_s in range(5, 305, 5):
        fast, slow = told(NOW_S + at_s, router="a"), told(NOW_S + at_s - 4, router="b")
        budget = budget.fold([fast, slow])

    # Both up to the last second that both tell of.
    assert sum(budget.finished) == 2 * ENDED_PER_S * 296


def test_a_router_that_ended_is_still_counted() -> None:
    gone = replace(told(NOW_S + 30, router="gone"), ended=True)
    budget = ErrorBudget().fold([report(now_s=NOW_S)])

    budget = budget.fold([report(now_s=NOW_S + 60), gone])

    assert sum(budget.finished) == ENDED_PER_S * 31


def test_a_look_without_any_router_changes_nothing() -> None:
    budget = looked(60)

    assert budget.fold([]) == budget


def test_a_restart_neither_loses_nor_doubles_what_ended() -> None:
    stored = memory_to_json(Memory(promise=Promise(budget=looked(7, 300))))

    restarted = memory_from_json(stored).promise.budget

    assert restarted == looked(7, 300)
    assert restarted.fold([told(NOW_S + 600)]) == looked(7, 300, 600)


def test_what_ended_while_the_operator_was_away_is_counted_when_it_is_back() -> None:
    assert looked(10, 1000) == looked(10, 500, 1000)


def test_a_clock_set_back_counts_nothing_twice() -> None:
    budget = looked(300)

    set_back = budget.fold([told(NOW_S + 200)])

    assert set_back == budget
    assert set_back.fold([told(NOW_S + 400)]) == looked(400)


def test_a_clock_set_back_by_half_an_hour_counts_what_ends_from_then_on() -> None:
    budget = looked(600)

    set_back = budget.fold([told(NOW_S - 1200)])

    assert set_back.burn_rate(WINDOW_S, 0.95) == budget.burn_rate(WINDOW_S, 0.95)
    later = set_back.fold([told(NOW_S - 900, since_s=NOW_S - 2400)])
    assert sum(later.finished) == sum(budget.finished) + 300 * ENDED_PER_S


def test_a_clock_set_back_by_a_day_begins_anew() -> None:
    budget = looked(300).fold([told(NOW_S - 86400.0, since_s=NOW_S - 90000.0)])

    assert budget.burn_rate(WINDOW_S, 0.95) is None
    assert budget.folded_s == NOW_S - 86401


def test_nothing_is_known_of_a_budget_before_twenty_requests_ended() -> None:
    few = ErrorBudget(folded_s=0, finished=(19,), good=(0,))

    assert few.remaining(0.95) is None
    assert replace(few, finished=(20,)).remaining(0.95) is not None


def test_a_budget_is_overspent_below_zero() -> None:
    assert spent(0.12).remaining(0.95) == pytest.approx(-1.4)


def test_a_budget_without_a_late_request_is_whole() -> None:
    assert spent(0.0).remaining(0.999) == 1.0


def test_what_ended_more_than_an_hour_ago_is_no_longer_in_the_hour() -> None:
    burst = ErrorBudget(
        folded_s=0, finished=(1000,) * 61, good=(0, *(1000,) * 60), hourly_finished=(61000,)
    )

    assert burst.remaining(0.95) == 1.0
    assert (burst.burn_rate(21600.0, 0.95) or 0.0) > 0.0


def test_thirty_days_are_counted_by_the_hour() -> None:
    days = ErrorBudget(
        folded_s=0, hourly_finished=(1000,) * HOURS_KEPT, hourly_good=(990,) * HOURS_KEPT
    )

    assert days.remaining(0.98, MONTH_S) == pytest.approx(0.5)
    assert days.left(0.98).remaining_30d_share == pytest.approx(0.5)


def test_burn_rates_say_how_many_times_too_fast_each_window_spends() -> None:
    minutes = [1000] * 355, [1000] * 5
    budget = ErrorBudget(
        folded_s=0, finished=(*minutes[0], *minutes[1]), good=(*minutes[0], *[800] * 5)
    )

    rates = budget.left(0.95).burn_rates

    assert rates["5m"] == pytest.approx(4.0)
    assert rates["1h"] == pytest.approx(4.0 / 12)
    assert rates["6h"] == pytest.approx(4.0 / 72)


def test_days_are_counted_by_the_hour_for_alerts() -> None:
    hours = (*[1000] * 23, 900)
    budget = ErrorBudget(folded_s=0, hourly_finished=(1000,) * 24, hourly_good=hours)

    left = budget.left(0.99)

    assert left.burn_rates["1d"] == pytest.approx(100 / 240)
    assert left.late_requests["3d"] == 100


def test_late_requests_are_counted_where_too_few_ended_for_a_rate() -> None:
    left = ErrorBudget(folded_s=0, finished=(3,), good=(1,)).left(0.95)

    assert left.late_requests["5m"] == 2
    assert left.burn_rates == {}


def test_too_few_ended_requests_give_no_burn_rate() -> None:
    assert ErrorBudget().left(0.95).burn_rates == {}
    assert ErrorBudget().left(0.95).late_requests == {}


def test_a_week_of_minutes_keeps_no_more_than_it_needs() -> None:
    budget = looked(60)

    for hour in range(1, 24 * 40):
        at_s = NOW_S + 3600.0 * hour
        budget = budget.fold([report(now_s=at_s, finished=[ended(at_s - 60, 30, good=15)])])

    assert len(budget.finished) == len(budget.good) == MINUTES_KEPT
    assert len(budget.hourly_finished) == len(budget.hourly_good) == HOURS_KEPT
    assert sum(budget.finished) == 30 * (MINUTES_KEPT * 60 // HOUR_S)
    assert sum(budget.hourly_finished) == 30 * HOURS_KEPT


@given(st.floats(0.0, 1.0), st.sampled_from([0.9, 0.95, 0.99, 0.999]))
def test_never_more_is_allowed_than_the_objective(late_share: float, attainment: float) -> None:
    allowed = spent(late_share).allowed_late(attainment)

    assert 0.0 < allowed <= 1.0 - attainment


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_less_is_allowed_the_more_is_burnt(one: float, other: float) -> None:
    less, more = sorted((one, other))

    assert spent(more).allowed_late(0.95) <= spent(less).allowed_late(0.95)


def test_a_burnt_budget_is_given_time_by_missing_less_than_the_objective() -> None:
    assert spent(0.06).allowed_late(0.95) < 0.5 * spent(0.0).allowed_late(0.95)


def test_what_an_insurance_has_answered_is_not_held_against_it() -> None:
    minutes = [1000] * 60
    budget = ErrorBudget(folded_s=3600, finished=tuple(minutes), good=(*[800] * 30, *minutes[30:]))

    assert budget.allowed_late(0.95) < 0.01
    assert budget.allowed_late(0.95, since_s=1800) == pytest.approx(0.05)
    assert budget.allowed_late(0.95, since_s=9000) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("late_share", "minutes", "proof"),
    [
        (0.10, 20, Proof.SHORT),
        (0.05, 20, Proof.NONE),
        (0.01, 20, Proof.AMPLE),
        (0.01, 10, Proof.NONE),
        (0.10, 2, Proof.SHORT),
        (0.10, 0, Proof.NONE),
    ],
)
def test_a_fleet_is_short_or_ample_once_late_requests_prove_it(
    late_share: float, minutes: int, proof: Proof
) -> None:
    assert spent(late_share).proof(0.95, since_s=-60 * minutes) is proof


@pytest.mark.parametrize(
    ("late", "burns"),
    [
        ((0, 0, 0), False),
        ((900, 50, 50, 50), False),
        ((0, 50, 60, 60), False),
        ((0, 50, 80, 70), True),
        ((0, 0, 0, 200), True),
    ],
)
def test_the_latest_minutes_alone_say_whether_a_budget_burns(
    late: tuple[int, ...], burns: bool
) -> None:
    minutes = ErrorBudget(
        folded_s=0, finished=(1000,) * len(late), good=tuple(1000 - each for each in late)
    )

    assert minutes.burns(0.95) is burns


def test_a_budget_burns_by_the_chance_of_its_own_objective() -> None:
    few = ErrorBudget(folded_s=0, finished=(500, 500, 500), good=(500, 495, 495))

    assert not few.burns(0.999)
    assert replace(few, good=(499, 495, 495)).burns(0.999)
    assert not ErrorBudget().burns(0.999)


def test_a_late_request_or_two_prove_nothing() -> None:
    few = ErrorBudget(folded_s=0, finished=(4,) * 60, good=(4,) * 58 + (2, 4))

    assert few.proof(0.99, since_s=-600) is Proof.NONE


def test_the_first_late_requests_of_a_new_fleet_are_chance() -> None:
    young = ErrorBudget(folded_s=0, finished=(200,), good=(197,))

    assert young.allowed_late(0.99, since_s=-30) > 0.9 * 0.01


def test_all_of_the_objective_is_allowed_while_nothing_is_known() -> None:
    assert ErrorBudget().allowed_late(0.99) == pytest.approx(0.01)


def test_while_no_router_tells_the_windows_are_unknown_one_after_the_other() -> None:
    budget = looked(600.0)

    def known(after_s: float) -> tuple[set[str], bool, bool]:
        left = budget.left(0.99, now_s=NOW_S + 600.0 + after_s)
        assert set(left.late_requests) == set(left.burn_rates)
        hour, month = left.remaining_share, left.remaining_30d_share
        return set(left.burn_rates), hour is not None, month is not None

    windows = set(BURN_WINDOWS_S)
    assert known(0.0) == known(140.0) == (windows, True, True)
    assert known(160.0) == (windows - {"5m"}, True, True)
    assert known(1900.0) == (windows - {"5m", "30m", "1h"}, False, True)
    assert known(20 * 24 * 3600.0) == (set(), False, False)
    assert budget.fold([]).left(0.99, now_s=NOW_S + 4200.0).remaining_share is None
