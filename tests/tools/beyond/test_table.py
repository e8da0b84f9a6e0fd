"""The tables say what the runs said: means, worst cases, shares of the bound, minutes that lost."""

from typing import Any

import pytest

from benchmarks.beyond import table
from benchmarks.beyond.run import setup_of, traces
from benchmarks.beyond.steps import STEPS
from tandem_operator.core.spec import Insurance


def row(attainment: float, goodput: float, *minutes: dict[str, Any]) -> dict[str, Any]:
    return {"attainment": attainment, "good_per_gpu_s": goodput, "minutes": list(minutes)}


RESULTS = {
    "bound": {"A": row(0.98, 5.0), "A2": row(0.97, 4.0), "U1": row(0.99, 5.0)},
    "gate": {"A": row(0.99, 4.0), "A2": row(0.95, 3.6), "U1": row(0.9, 3.0)},
    "counted": {"A": row(0.96, 4.5)},
}


def test_a_group_shows_its_mean_its_worst_and_its_share_of_the_bound() -> None:
    line = next(each for each in table.ladder(RESULTS).splitlines() if each.startswith("| gate"))

    assert "0.970 @ 3.80, worst 0.950; 0.85, worst 0.80" in line
    assert "0.900 @ 3.00, worst 0.900; 0.60, worst 0.60" in line
    assert "(on" not in line


def test_only_groups_that_ran_have_a_column() -> None:
    drawn = {"bound": {"V1": row(0.98, 5.0)}, "gate": {"V1": row(0.99, 4.0)}}

    assert "drawn" not in table.ladder(RESULTS)
    assert table.ladder(drawn).splitlines() == [
        "| step | what | V1..V16 (drawn) |",
        "|---|---|---|",
        f"| bound | {STEPS['bound'].what} | 0.980 @ 5.00, worst 0.980; 1.00, worst 1.00 |",
        f"| gate | {STEPS['gate'].what} | 0.990 @ 4.00, worst 0.990; 0.80, worst 0.80 |",
    ]


def test_drawn_traces_are_played_as_those_of_the_suite() -> None:
    setup = setup_of("V1", STEPS["gate"])

    assert setup.trace.name == "V1"
    assert setup.profile == setup_of("A", STEPS["gate"]).profile


def test_a_step_that_ran_on_some_traces_only_says_on_how_many() -> None:
    line = table.ladder(RESULTS).splitlines()[-1]

    assert line.endswith("| 0.960 @ 4.50, worst 0.960; 0.90, worst 0.90 (on 1 of 2) |  |")


def test_a_trace_shows_every_step_side_by_side() -> None:
    lines = table.by_trace(RESULTS).splitlines()

    assert "| A | 0.980 @ 5.00 | 0.990 @ 4.00 | 0.960 @ 4.50 |" in lines
    assert "| A2 | 0.970 @ 4.00 | 0.950 @ 3.60 |  |" in lines


def test_only_minutes_that_lost_are_listed() -> None:
    calm, lossy = (
        {
            "minute": minute,
            "requests": 900,
            "late_ttft": late,
            "late_tpot": 2,
            "overflowed": 7,
            "ready": {"prefill": 2.0, "decode": 1.5},
        }
        for minute, late in ((3, 1), (4, 40))
    )

    lines = table.lost({"A": row(0.9, 4.0, calm, lossy)}).splitlines()

    assert lines[2:] == ["| A | 4 | 900 | 40 | 2 | 7 | 2.0 | 1.5 |"]


def test_the_traces_are_those_of_the_fight_with_a_burst_and_the_one_without() -> None:
    wanted = ("A", *(f"A{n}" for n in range(2, 9)), *(f"U{n}" for n in range(1, 6)))

    assert sorted(traces()) == sorted(wanted)


@pytest.mark.parametrize("name", [n for n, step in STEPS.items() if step.insurance == Insurance()])
def test_sizing_counts_on_nothing_unless_the_step_is_about_that(name: str) -> None:
    assert setup_of("A4", STEPS[name]).spec.insurance == Insurance()


def test_a_step_counts_on_nothing_that_its_router_does_not_do() -> None:
    for step in STEPS.values():
        router, counted = step.router, step.insurance
        assert router.overflow or not counted.overflow
        assert router.decode_gate or not counted.decode_gate
        assert router.order != "fifo" or not step.tuning.sizing.deadline_order
