"""The lesson of a pause and the cost of a wake; its lateness is told but buys nothing."""

from dataclasses import replace

import pytest

from tandem_operator.core.learn.correction import BLAMED
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.rest import Rest, Wake
from tandem_operator.core.observe.arrivals import WAKE, outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING
from tandem_routing.history import Finished
from tandem_routing.verdict import Cause, Ending, Timeline, judge
from tests.unit.core.scene import NOW_S, ended, make_spec, report

SPEC = replace(make_spec(), sleep_after_s=600.0)
LEAD_S = dict.fromkeys(Role, 90.0)


def hold_s(*lasting: float, late_gpu_s: float = 0.0, wake: Wake | None = None) -> float:
    rest = Rest(lasting=lasting, wake=wake)
    return rest.pauses(SPEC, lead_s=LEAD_S, late_gpu_s=late_gpu_s, tuning=TUNING).hold_s


@pytest.mark.parametrize(
    ("lasting", "held_s"),
    [
        ((), 600.0),
        # One pause is chance.
        ((630.0,), 600.0),
        ((630.0, 640.0), 690.0),
        # Each costs more to hold than to sleep through.
        ((700.0, 5000.0, 700.0), 600.0),
        # What two save, one long pause costs again.
        ((640.0, 640.0, 5000.0), 690.0),
        ((680.0, 680.0, 5000.0), 600.0),
        # Pauses of before the bound was raised say nothing.
        ((100.0, 590.0), 600.0),
    ],
)
def test_a_pool_is_held_for_longer_where_that_would_have_cost_less(
    lasting: tuple[float, ...], held_s: float
) -> None:
    assert hold_s(*lasting) == held_s


def test_late_requests_are_a_part_of_what_a_start_costs() -> None:
    wake = Wake(asked_s=0.0, decided_s=1.0, waited=4)

    assert hold_s(700.0, 710.0) == 600.0
    assert hold_s(700.0, 710.0, late_gpu_s=25.0) == 600.0
    assert hold_s(700.0, 710.0, late_gpu_s=25.0, wake=wake) == 740.0


def test_no_pool_is_held_for_hours_whatever_a_start_costs() -> None:
    longest_s = 600.0 + TUNING.guard.longest_break_even_s

    assert hold_s(601.0, 602.0, late_gpu_s=1e9) == longest_s


def test_lateness_of_a_wake_is_told_but_is_no_fault_of_the_fleet() -> None:
    budget = ErrorBudget().fold([report(now_s=NOW_S)])
    late = ended(NOW_S + 30, 40, good=10, late_ttft=30, blame={WAKE: 30})

    budget = budget.fold([report(now_s=NOW_S + 60, finished=[late])])
    left = budget.left(0.9, now_s=NOW_S + 60)

    assert budget.remaining(0.9) == pytest.approx(1.0 - 0.75 / 0.1)
    assert budget.awake.late_share(3600.0, min_finished=1) == 0.0
    assert set(left.late_requests.values()) == {0}
    assert left.burn_rates["5m"] == pytest.approx(7.5)


def test_other_lateness_of_the_same_minutes_still_counts() -> None:
    budget = ErrorBudget().fold([report(now_s=NOW_S)])
    late = ended(NOW_S + 30, 40, good=10, late_ttft=30, blame={WAKE: 10, "prefill": 20})

    budget = budget.fold([report(now_s=NOW_S + 60, finished=[late])])
    later = budget.fold([report(now_s=NOW_S + 600, finished=[late])])

    assert later.awake.late_share(3600.0, min_finished=1) == pytest.approx(20 / 30)
    assert set(later.left(0.9).late_requests.values()) == {0, 20}


def test_no_role_is_blamed_for_a_wake_and_no_price_rises() -> None:
    late = ended(NOW_S - 10, 40, good=40, blame={})
    woken = ended(NOW_S - 9, 30, good=0, late_ttft=30, blame={WAKE: 30})

    seen = outcomes([report(finished=[late, woken])], window_s=60)

    assert WAKE not in BLAMED
    assert WAKE == Cause.WAKE
    assert seen.attainment == pytest.approx(40 / 70)
    assert seen.attainment_awake == 1.0


def test_a_request_that_waited_for_a_wake_was_never_overdue_before() -> None:
    bounds = make_spec().slo
    timeline = Timeline(received_s=0.0, dispatched_s=100.0, wake_s=99.0, first_token_s=100.5)
    verdict = judge(
        timeline, Ending.ANSWERED, ended_s=101.0, slo=bounds, prompt_tokens=10, output_tokens=1
    )
    row = Finished()

    row.add(verdict, Cause.WAKE, output_tokens=1)

    assert verdict.parts[Cause.WAKE] == 99.0
    assert sum(verdict.parts.values()) == pytest.approx(100.5)
    assert (row.late_ttft, row.blame[WAKE], dict(row.echoes)) == (1, 1, {})
