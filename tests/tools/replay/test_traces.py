"""The suite's traces are the published ones, and the replay is given what was read."""

import hashlib
import json
from pathlib import Path

import pytest

from benchmarks.replay.recipes import RECIPES, SUITE
from benchmarks.replay.traces import in_whole_ms, opened, replay_lines
from tandem_operator.sim.traces.readers import TraceError, TraceFormat
from tandem_operator.sim.traces.trace import Trace, TraceRequest

ROWS = (
    '{"timestamp":0,"input_length":900,"output_length":7,"hash_ids":[4,5]}\n',
    '{"timestamp":1250,"input_length":600,"output_length":9,"hash_ids":[4,6]}\n',
)


def test_what_is_written_for_the_replay_is_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(ROWS))

    trace = opened(path, TraceFormat.MOONCAKE)

    assert trace.name == "mine"
    assert tuple(replay_lines(trace)) == ROWS


def test_requests_without_blocks_get_blocks_that_no_other_request_shares() -> None:
    requests = (TraceRequest(0.0, 900, 7), TraceRequest(1.0, 600, 9, (3, 8)))
    more = (TraceRequest(2.0, 513, 1), TraceRequest(3.0, 512, 1))

    lines = replay_lines(Trace("t", requests + more))

    assert [json.loads(line)["hash_ids"] for line in lines] == [[9, 10], [3, 8], [11, 12], [13]]


def test_a_scaled_trace_says_so_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(ROWS))

    trace = opened(path, TraceFormat.MOONCAKE, rate_scale=2.0)

    assert trace.name == "mine x2"
    assert len(trace.requests) == 4


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, r"mine\.jsonl: cannot be read \(No such file"),
        (b"\xff\xfe\x00", r"mine\.jsonl: is not text"),
        (b"{", r"mine\.jsonl:1: not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "mine.jsonl"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(TraceError, match=complaint):
        opened(path, TraceFormat.MOONCAKE)


def test_a_clock_of_whole_milliseconds_never_runs_ahead() -> None:
    trace = in_whole_ms(Trace("t", (TraceRequest(0.0019, 1, 1), TraceRequest(0.002, 1, 1))))

    assert [r.at_s for r in trace.requests] == [0.001, 0.002]


@pytest.mark.parametrize(
    ("name", "requests", "digest"),
    [
        ("A", 29_297, "ddb73579145a588926301540"),
        ("A4", 28_002, "7873774dbb589a3ec36ceb9b"),
        ("B", 44_934, "a269ca0b879878a8e7be7ee1"),
        ("V1", 29_913, "b55074050dac33e8a73b4666"),
    ],
)
def test_a_made_trace_is_the_published_one(name: str, requests: int, digest: str) -> None:
    trace = RECIPES[name].make(Path("not needed"))

    lines = "".join(replay_lines(trace))

    assert len(trace.requests) == requests
    assert hashlib.sha256(lines.encode()).hexdigest().startswith(digest)


def test_traces_near_azure_x4_are_so_many_copies_of_the_hour(tmp_path: Path) -> None:
    rows = "".join(f"2023-11-16 18:{m:02}:{s:02}.0,100,10\n" for m in range(20) for s in range(60))
    (tmp_path / "azure2023_conv.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)

    fewer, four, more = (
        RECIPES[name].make(tmp_path) for name in ("azure-x3.6", "azure-x4", "azure-x4.4")
    )

    assert len(four.requests) == 4 * 1200
    assert len(fewer.requests) / 1200 == pytest.approx(3.6, abs=0.05)
    assert len(more.requests) / 1200 == pytest.approx(4.4, abs=0.05)
    assert four.span_s == pytest.approx(200.0, abs=1.0)


def test_unseen_traces_use_seeds_of_their_own() -> None:
    tuned = {name for name, recipe in SUITE.items() if not recipe.unseen}

    assert {"A", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "B"} <= tuned
    assert sum(recipe.unseen and recipe.kind == "jump" for recipe in SUITE.values()) >= 5
