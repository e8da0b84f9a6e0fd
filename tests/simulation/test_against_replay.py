"""The simulator says of a static fleet what NVIDIA's replay said of it."""

import json
from argparse import Namespace
from pathlib import Path

from benchmarks.simulator.__main__ import HERE, compare, run, setup_of
from benchmarks.simulator.cases import CASES


def test_a_fleet_inside_its_slo_is_within_five_percent_of_the_replay() -> None:
    noted = HERE / "nvidia.json"
    case = next(case for case in CASES if case.name == "A4")
    options = Namespace(mooncake=Path("not needed"), noted=noted)

    report = run(setup_of(case, options), (5, 3))

    row = compare(report, json.loads(noted.read_text())["runs"]["A4 5P3D"])
    assert row["verdict"] == "within", row
