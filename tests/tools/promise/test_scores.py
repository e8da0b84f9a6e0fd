"""Each row of the table, with numbers worked out by hand."""

from typing import Any

import pytest

from benchmarks.promise import plot, tables
from benchmarks.promise.cases import Case
from benchmarks.promise.scores import Line, Result, lines, worst
from benchmarks.promise.traffic import Family, Traffic
from tandem_operator.sim.traces.generate import Lengths, Mix

MIX = Mix(Lengths(100), Lengths(10))


def row(attainment: float, gpu_hours: float, **more: Any) -> dict[str, Any]:
    usual = {
        "policy": "some",
        "attainment": attainment,
        "gpu_hours": gpu_hours,
        "requests": 1000,
        "late": round(1000 * (1 - attainment)),
        "good_per_gpu_s": attainment / gpu_hours,
        "changes_per_hour": 0.0,
        "first": {"attainment": 0.9},
    }
    return usual | more


def result(
    family: Family,
    *,
    target: float = 0.95,
    name: str = "",
    event_s: float | None = None,
    **rows: Any,
) -> Result:
    traffic = Traffic(family, 1.0, 2.0, 2700.0, 1, MIX, period_s=1200.0)
    return Result(Case(name or family, traffic, target, event_s=event_s), rows)


def of(what: str, *results: Result, before: tuple[Result, ...] = ()) -> Line:
    return next(line for line in lines(results, before) if what in line.what)


def test_a_case_that_no_fixed_fleet_can_hold_breaks_no_promise() -> None:
    held = result(Family.MMPP, tandem=row(0.96, 1.0), fixed=row(0.95, 1.0))
    hopeless = result(Family.MMPP, tandem=row(0.5, 1.0), fixed=None)

    line = of("what recurs", held, hopeless)

    assert line.measured.startswith("1 of 1")
    assert line.keeps_goal


@pytest.mark.parametrize(("attainment", "kept"), [(0.9251, True), (0.9249, False)])
def test_one_case_in_thirty_four_may_miss_by_half_of_its_budget(
    attainment: float, kept: bool
) -> None:
    fixed = row(1.0, 1.0)
    fine = [result(Family.POISSON, tandem=row(0.96, 1.0), fixed=fixed) for _ in range(33)]

    line = of("what recurs", *fine, result(Family.MMPP, tandem=row(attainment, 1.0), fixed=fixed))

    assert line.keeps_must is kept
    assert not line.keeps_goal


@pytest.mark.parametrize(
    ("what", "bound"), [("same fleet", "caught"), ("fleet of its own", "surprised")]
)
def test_a_surprise_is_judged_by_a_policy_that_learns_of_it_as_it_happens(
    what: str, bound: str
) -> None:
    case = result(Family.STEP).case
    near = Result(case, {"tandem": row(0.88, 1.0), bound: row(0.9, 1.0)})
    far = Result(case, {"tandem": row(0.8, 1.0), bound: row(0.9, 1.0)})

    assert of(what, near).keeps_must
    assert not of(what, near).keeps_goal
    assert not of(what, near, far).keeps_must


def test_what_the_objective_allows_is_no_fault_after_a_surprise() -> None:
    line = of("nobody could know", result(Family.STEP, tandem=row(0.96, 1.0), caught=row(1.0, 1.0)))

    assert line.keeps_goal


def test_stationary_traffic_and_trends_are_priced_apart() -> None:
    level = result(Family.MMPP, tandem=row(0.96, 1.2), fixed=row(0.95, 1.0))
    trend = result(Family.SINE, tandem=row(0.96, 0.6), fixed=row(0.95, 1.0))

    assert of("stationary", level, trend).measured == "mean 1.20, worst 1.20, 1 cases"
    assert not of("stationary", level, trend).keeps_must
    assert of("with a trend", level, trend).keeps_goal


def test_the_cheaper_of_two_autoscalers_counts_if_it_reaches_the_target() -> None:
    one = result(Family.MMPP, tandem=row(0.96, 1.0), hpa=row(0.95, 2.0), keda=row(0.9, 0.5))

    assert of("tuned in hindsight", one).measured.startswith("mean 0.50")


def test_worse_on_both_axes_than_the_rule_without_forecast_is_never_allowed() -> None:
    traded = result(Family.MMPP, tandem=row(0.96, 1.2), hold=row(0.95, 1.0))
    beaten = result(Family.MMPP, tandem=row(0.94, 1.2), hold=row(0.95, 1.0))

    assert of("`hold`, each case", traded).keeps_must
    assert not of("`hold`, each case", traded, beaten).keeps_must
    assert not of("`hold`, means", traded).keeps_must


def test_the_first_minutes_are_set_beside_an_older_core() -> None:
    now = result(Family.MMPP, tandem=row(0.96, 1.0, first={"attainment": 0.895}))
    then = result(Family.MMPP, tandem=row(0.96, 1.0))

    line = of("first 15 minutes", now, before=(then,))

    assert line.keeps_must
    assert not line.keeps_goal
    assert of("first 15 minutes", now).keeps_must is None


def test_what_was_not_run_is_not_measured() -> None:
    assert {line.measured for line in lines([])} == {"not measured"}


def test_the_worst_case_uses_most_of_its_budget_and_not_most_requests() -> None:
    tight = result(Family.MMPP, target=0.999, name="tight", tandem=row(0.99, 1.0))
    loose = result(Family.MMPP, target=0.95, name="loose", tandem=row(0.94, 1.0))

    assert [each.case.name for each in worst([loose, tight])] == ["tight", "loose"]


def test_tables_and_picture_mark_a_missed_target_and_show_each_policy() -> None:
    one = result(
        Family.MMPP,
        tandem=row(0.94, 1.2, policy="tandem"),
        hold=row(0.97, 1.1, policy="hold"),
        fixed=row(0.96, 1.0, policy="static 3P2D"),
    )

    assert "0.9400!@ 1.20" in tables.by_case([one])
    assert "3P2D 0.9600 @ 1.00" in tables.line(one)
    assert "x1.20 of fixed" in tables.line(one)
    assert plot.svg([one]).count("fill-opacity") == 2
    assert "x1.20" in plot.svg([one])
    assert ">hold</text>" in plot.svg([one])
    assert ">keda</text>" not in plot.svg([one])
