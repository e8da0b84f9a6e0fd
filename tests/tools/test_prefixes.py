"""The benchmark of prefix placement: what it compares, and how its figures are shown."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.prefixes import cases
from benchmarks.prefixes.cases import WAYS, setup_of, trace_of
from benchmarks.prefixes.run import run
from benchmarks.prefixes.shrinks import HALF_S, Case, shrink_table
from benchmarks.prefixes.shrinks import run as shrunk
from benchmarks.prefixes.table import fixed_table, scaled_table
from benchmarks.promise.cases import Slo
from tandem_operator.core.role import Role
from tandem_operator.sim.traces.trace import Trace, TraceRequest

START = {Role.PREFILL: 2, Role.DECODE: 1}


def row(way: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "trace": "conversations",
        "way": way,
        "fleet": [4, 2],
        "times": 1,
        "hit_rate": 0.2,
        "ttft_p50_s": 0.1,
        "ttft_p95_s": 1.0,
        "attainment": 0.99,
        "busy_hours": 2.0,
        "prefill_gpu_hours": 3.0,
        "gpu_hours": 5.0,
    }
    return usual | changes


def test_rows_are_held_against_those_that_differ_by_placement_alone() -> None:
    rows = [
        row("prefix", hit_rate=0.3, busy_hours=1.5),
        row("endless", hit_rate=0.4),
        row("least-loaded"),
        row("endless", hit_rate=0.8, times=8),
    ]

    lines = fixed_table(rows, bound=lambda row: 0.5).splitlines()[2:]

    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    ways = ("least-loaded", "prefix", "endless")
    assert [each[3] for each in cells[:3]] == [WAYS[way].what for way in ways]
    assert cells[1][5:7] == ["0.75", "0.60"]
    assert cells[1][-1] == "0.75"
    assert cells[2][6] == ""
    assert cells[3][2] == "x 8"


def test_gpu_hours_are_held_against_the_least_loaded_pods() -> None:
    rows = [row("least-loaded", fleet=None), row("prefix", fleet=None, gpu_hours=4.0)]

    assert scaled_table([*rows, row("prefix")]).splitlines()[3].endswith("| 4.00 | 0.80 |")


def test_every_way_serves_the_same_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = tuple(
        TraceRequest(0.5 * n, 4000, 5, tuple(range(100 * (n % 3), 100 * (n % 3) + 7)))
        for n in range(30)
    )
    trace = Trace("few", requests)
    monkeypatch.setattr("benchmarks.prefixes.run.trace_of", lambda name, folder: trace)
    monkeypatch.setattr("benchmarks.prefixes.run.SCORED_S", 0.0)

    hits = {way: run("few", way, fleet=(2, 1), times=1, folder=None)["hit_rate"] for way in WAYS}

    assert hits["endless"] == max(hits.values())
    assert hits["prefix"] == hits["caches"] >= hits["least-loaded"] > 0.0


def test_victims_are_held_against_those_by_load_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # One conversation goes on and the other ends, so one of two caches is worth something.
    later_s = HALF_S - 30.0, HALF_S + 30.0, HALF_S + 60.0
    turns = [(0.0, 1), (0.0, 2), *((at_s, 2) for at_s in later_s)]
    requests = tuple(
        TraceRequest(at_s, 6000, 5, tuple(range(20 * who, 20 * who + 11))) for at_s, who in turns
    )
    trace = Trace("turns", requests)
    monkeypatch.setattr("benchmarks.prefixes.shrinks.trace_of", lambda name, folder: trace)
    monkeypatch.setattr("benchmarks.prefixes.run.SCORED_S", 0.0)
    case = Case("turns", 1, (2, 1))

    rows = [shrunk(case, worth_counts=each, folder=None) for each in (True, False)]

    before, live = [line.split("|")[4:10] for line in shrink_table(rows).splitlines()[2:]]
    assert [before[0].strip(), live[0].strip()] == [
        "least load (before)",
        "least load and worth (live)",
    ]
    assert float(live[2]) > float(before[2]) > 0.0
    assert float(live[3]) < float(before[3]) == 1.0


def test_prompts_alone_share_no_block() -> None:
    blocks = [block for request in trace_of("alone", None).requests for block in request.blocks]

    assert len(blocks) == len(set(blocks)) > 0


def test_a_cache_that_all_share_is_the_benchmarks_alone() -> None:
    trace = Trace("one", (TraceRequest(0.0, 10, 1),))
    setups = {way: setup_of(trace, WAYS[way], start=START, times=2, slo=Slo()) for way in WAYS}

    assert [way for way, setup in setups.items() if setup.one_cache is not None] == ["endless"]
    usual = cases.profile().kv_capacity_tokens
    assert {setup.profile for setup in setups.values()} == {
        replace(cases.profile(), kv_capacity_tokens=2 * usual)
    }
