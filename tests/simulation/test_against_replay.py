"""The simulator says of a static fleet what NVIDIA's replay said of it."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.simulator.__main__ import HERE, compare, run, setup_of
from benchmarks.simulator.cases import CASES


@pytest.mark.parametrize(("name", "fleet"), [("A", (4, 3)), ("A4", (5, 3)), ("B", (4, 5))])
def test_a_fleet_that_keeps_nine_tenths_is_within_five_percent_of_the_replay(
    name: str, fleet: tuple[int, int]
) -> None:
    noted = HERE / "nvidia.json"
    case = next(case for case in CASES if case.name == name)
    options = Namespace(traces=Path("not needed"), noted=noted)

    report = run(setup_of(case, options), fleet)

    row = compare(report, json.loads(noted.read_text())["runs"][f"{name} {fleet[0]}P{fleet[1]}D"])
    assert row["verdict"] == "within", row
