"""The table says what each step of the insurance changes, case by case."""

from benchmarks.promise.ablation import STEPS, table
from benchmarks.promise.quick import QUICK


def test_a_step_shows_how_many_targets_are_reached_without_it() -> None:
    one, other = (case for case in QUICK if case.name in ("jumps-8-40", "jumps-2-60-short"))
    rows = {
        (one.name, "whole"): {"attainment": 0.96, "gpu_hours": 2.0},
        (other.name, "whole"): {"attainment": 0.96, "gpu_hours": 4.0},
        (one.name, "insurance"): {"attainment": 0.90, "gpu_hours": 1.0},
        (other.name, "insurance"): {"attainment": 0.98, "gpu_hours": 4.0},
    }

    lines = table([one, other], ("whole", "insurance"), rows).splitlines()

    assert lines[2].endswith("| 2 of 2 | +0.00 points | +0.0 % |")
    assert lines[3] == (
        f"| insurance | {STEPS['insurance'].without} | 1 of 2 | -2.00 points | -25.0 % |"
    )
