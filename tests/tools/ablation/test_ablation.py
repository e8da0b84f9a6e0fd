"""A step taken out is really out, and the table says what was lost without it."""

import importlib
from functools import reduce
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ablation import run as ablation
from benchmarks.ablation.cases import CASES, FAMILIES
from benchmarks.ablation.parts import CHANCE, PARTS, WHOLE
from benchmarks.ablation.run import CORE, without
from benchmarks.ablation.table import chance, change, table, worth
from tandem_operator.core.forecast import forecaster
from tandem_operator.core.tuning.tuning import TUNING


def row(attainment: float, goodput: float) -> dict[str, Any]:
    return {"attainment": attainment, "good_per_gpu_s": goodput}


def rows(**attainments: float) -> dict[tuple[str, str], Any]:
    """Return the rows of one family, all with the same goodput."""
    [case] = FAMILIES["level"]
    return {(case.name, step): row(attainment, 4.0) for step, attainment in attainments.items()}


@pytest.mark.parametrize("target", sorted({t for part in PARTS.values() for t in part.instead}))
def test_what_is_replaced_is_there(target: str) -> None:
    module, _, path = target.partition(".")

    reduce(getattr, path.split("."), importlib.import_module(f"{CORE}.{module}"))


@pytest.mark.parametrize("name", list(PARTS))
def test_what_stands_in_differs_from_what_it_replaces_and_takes_its_arguments(name: str) -> None:
    for target, other in PARTS[name].instead.items():
        module, _, path = target.partition(".")
        own = reduce(getattr, path.split("."), importlib.import_module(f"{CORE}.{module}"))
        assert own != other
        if callable(own):
            parameters = signature(own).parameters.values()
            given = [p.default for p in parameters if p.kind is not p.KEYWORD_ONLY]
            named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
            signature(other).bind(*given, **named)


@pytest.mark.parametrize("name", [name for name in PARTS if name not in (WHOLE, *CHANCE)])
def test_each_part_takes_something_out(name: str) -> None:
    part = PARTS[name]

    assert part.instead or part.tuned(TUNING) != TUNING


def test_a_run_goes_without_the_step_and_leaves_the_core_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(_case: object, _pool: object, policy: Any) -> dict[str, Any]:
        return {
            "look_ahead_s": policy.tuning.forecast.look_ahead_s,
            "season": forecaster.season is season,
        }

    season = forecaster.season
    monkeypatch.setattr("benchmarks.promise.bench.run", simulated)
    monkeypatch.setattr("benchmarks.promise.bench.pool_of", lambda *_: None)
    found = [
        ablation.outcome(("poisson", step, tmp_path))[2] for step in (WHOLE, "look-ahead", "season")
    ]

    assert [each["look_ahead_s"] for each in found] == [60.0, 0.0, 60.0]
    assert [each["season"] for each in found] == [True, True, False]
    assert forecaster.season is season


def test_a_loss_counts_where_it_is_more_than_chance() -> None:
    found = rows(whole=0.99, later=0.989, sooner=0.9905, season=0.98, steps=0.9895)

    luck = chance(found, "level")

    assert luck is not None
    assert luck.points == pytest.approx(0.1)
    assert worth(found, "season") == ["level"]
    assert worth(found, "steps") == []


def test_a_family_that_was_not_run_whole_says_nothing() -> None:
    assert change(rows(whole=0.99), "season", "level") is None
    assert change(rows(whole=0.99, season=0.98), "season", "waves") is None


def test_the_table_shows_each_step_beside_chance() -> None:
    found = rows(whole=0.99, later=0.989, sooner=0.9905, season=0.98)

    lines = table(found, (WHOLE, *CHANCE, "season")).splitlines()

    assert [line.split(" | ")[0] for line in lines[2:]] == ["| whole", "| chance", "| season"]
    assert "0.9900, 4.00" in lines[2]
    assert "+0.10, +0.0 %" in lines[3]
    assert "-1.00, +0.0 %" in lines[4]
    assert lines[4].endswith("| level |")


def test_every_case_has_a_name_of_its_own() -> None:
    assert len(CASES) == sum(map(len, FAMILIES.values()))


def test_without_a_part_of_numbers_alone_no_code_is_replaced() -> None:
    season = forecaster.season
    with without(PARTS["look-ahead"]):
        assert forecaster.season is season


def test_chance_takes_no_step_out() -> None:
    assert all(PARTS[each].tuned(TUNING) == TUNING and not PARTS[each].instead for each in CHANCE)
    assert {PARTS[each].later_s for each in CHANCE} == {1.0, -1.0}
