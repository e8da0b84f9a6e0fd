"""A step taken out is really out, and the tables say what was lost without it."""

import importlib
from functools import reduce
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.ablation import run as ablation
from benchmarks.ablation.parts import INSURANCE, PARTS, WHOLE
from benchmarks.ablation.run import CORE, outcome
from benchmarks.ablation.table import by_kind, by_trace
from tandem_operator.core.forecast import forecaster


def row(attainment: float, goodput: float) -> dict[str, Any]:
    return {"attainment": attainment, "good_per_gpu_s": goodput}


RESULTS = {
    WHOLE: {"A": row(0.95, 4.0), "A2": row(0.97, 5.0), "A4": row(0.98, 4.0)},
    "season": {"A": row(0.9, 4.4), "A2": row(0.97, 5.0), "A4": row(0.98, 3.0)},
}


ALL = PARTS | INSURANCE


@pytest.mark.parametrize("target", sorted({t for part in ALL.values() for t in part.instead}))
def test_what_is_replaced_is_there(target: str) -> None:
    module, _, path = target.partition(".")

    reduce(getattr, path.split("."), importlib.import_module(f"{CORE}.{module}"))


@pytest.mark.parametrize("name", [name for name in ALL if name != WHOLE])
def test_what_stands_in_differs_from_what_it_replaces_and_takes_its_arguments(name: str) -> None:
    for target, other in ALL[name].instead.items():
        module, _, path = target.partition(".")
        own = reduce(getattr, path.split("."), importlib.import_module(f"{CORE}.{module}"))
        assert own != other
        if callable(own):
            parameters = signature(own).parameters.values()
            given = [p.default for p in parameters if p.kind is not p.KEYWORD_ONLY]
            named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
            signature(other).bind(*given, **named)


def test_a_run_goes_without_the_step_and_leaves_the_core_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(*_: object) -> SimpleNamespace:
        seen = {"look_ahead_s": forecaster.LOOK_AHEAD_S}
        return SimpleNamespace(to_json=lambda: seen)

    monkeypatch.setattr(ablation, "simulate", simulated)
    whole, without = (
        outcome("A4", part, startup_s=60.0, folder=tmp_path, traces=tmp_path)["look_ahead_s"]
        for part in (WHOLE, "look-ahead")
    )

    assert (whole, without) == (forecaster.LOOK_AHEAD_S, 0.0)
    assert forecaster.LOOK_AHEAD_S > 0.0


def test_a_step_shows_what_is_lost_without_it() -> None:
    lines = by_kind(RESULTS).splitlines()

    assert lines[2].startswith(f"| {WHOLE} | the core as it is | 0.960, 4.50, 0.950 |")
    assert lines[3] == "| season | no sines | -2.5, +5.0 %, 0.900 | +0.0, -25.0 %, 0.980 |  |"


def test_each_trace_has_its_column() -> None:
    assert by_trace(RESULTS, ["A", "A4"]).splitlines()[3] == (
        "| season | 0.900 @ 4.40 | 0.980 @ 3.00 |"
    )
