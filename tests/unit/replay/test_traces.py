"""Public trace formats are read as they are; a broken line is named, never guessed."""

import json
from pathlib import Path

import pytest

from benchmarks.replay.recipes import SUITE, sine_with_burst
from benchmarks.replay.traces import Request, Trace, TraceError, Window, draw, read, scaled, write

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:50.9951690,396,109\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
)
SERVEGEN = "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens,active_clients\n"


def opened(path: Path, form: str, *, rate_scale: float = 1.0, hours: float = 1.0) -> Trace:
    return read(path, form, rate_scale=rate_scale, seed=1, hours=hours)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.txt"
    path.write_text(text)
    return path


def test_an_azure_trace_begins_at_zero_and_is_in_order(tmp_path: Path) -> None:
    trace = opened(written(tmp_path, AZURE), "azure")

    assert [r.prompt_tokens for r in trace.requests] == [374, 396]
    assert trace.requests[0].at_s == 0.0
    assert trace.requests[1].at_s == pytest.approx(4.314579)


def test_a_written_trace_is_read_as_it_was_with_its_shared_prefixes(tmp_path: Path) -> None:
    requests = (Request(0.0, 900, 7, (4, 5)), Request(1.25, 600, 9, (4, 6)), Request(2.0, 100, 1))
    path = tmp_path / "out.jsonl"

    write(Trace("t", requests), path)
    again = opened(path, "mooncake")

    assert again.requests[:2] == requests[:2]
    assert again.requests[2].blocks == (7,)


@pytest.mark.parametrize(
    ("form", "text", "complaint"),
    [
        ("azure", AZURE + "2023-11-16 18:15:51,12,zwei\n", ":4: GeneratedTokens"),
        ("azure", AZURE + "yesterday,12,3\n", ":4: TIMESTAMP"),
        ("azure", AZURE + "2023-11-16 18:15:51,12\n", ":4: 2 columns"),
        ("azure", "a,b,c\n", ":1: expected the columns TIMESTAMP"),
        ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no request"),
        ("mooncake", '{"timestamp": 0, "input_length": 5, "output_length": 2}\n{', ":2: no JSON"),
        ("mooncake", '{"timestamp": -1, "input_length": 5, "output_length": 2}', ":1: timestamp"),
        ("mooncake", '{"timestamp": 0, "input_length": 0, "output_length": 2}', "input_length"),
        (
            "mooncake",
            '{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": 3}',
            "hash",
        ),
        ("servegen", SERVEGEN + "0,-1,1,100,100,3\n", ":2: every column must be finite"),
        ("servegen", SERVEGEN + "0,fast,1,100,100,3\n", ":2: every column must be a number"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, form: str, text: str, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        opened(written(tmp_path, text), form)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"absent\.csv cannot be read"):
        opened(tmp_path / "absent.csv", "azure")


@pytest.mark.parametrize("factor", [0.5, 2.0, 2.5])
def test_rate_scale_changes_the_count_and_not_the_time(factor: float) -> None:
    trace = Trace("t", tuple(Request(float(i), 100, 10, (i,)) for i in range(1000)))

    more = scaled(trace, factor, seed=1)

    assert len(more.requests) == pytest.approx(1000 * factor, rel=0.08)
    assert more.duration_s == pytest.approx(trace.duration_s, abs=5.0)


def test_copies_of_a_trace_share_no_prefix_with_each_other() -> None:
    trace = Trace("t", tuple(Request(float(i), 100, 10, (i % 3,)) for i in range(30)))

    blocks = [r.blocks for r in scaled(trace, 2.0, seed=1).requests]

    assert len(set(blocks)) == 6


def test_an_aggregated_trace_is_drawn_at_its_rate_and_the_same_each_time() -> None:
    windows = [Window(10.0, 1.0, 500.0, 100.0)] * 6

    requests = draw(windows, rate_scale=0.5, seed=4, hours=1.0)

    assert len(requests) == pytest.approx(0.5 * 10.0 * 3600.0, rel=0.06)
    assert requests == draw(windows, rate_scale=0.5, seed=4, hours=1.0)
    mean = sum(r.prompt_tokens for r in requests) / len(requests)
    assert mean == pytest.approx(500.0, rel=0.1)


def test_a_gap_in_the_source_is_no_time_without_traffic(tmp_path: Path) -> None:
    rows = "0,2,1,100,100,3\n600,0,0,0,0,0\n1200,2,1,100,100,3\n"

    trace = opened(written(tmp_path, SERVEGEN + rows), "servegen")

    assert any(600.0 <= r.at_s < 1200.0 for r in trace.requests)


def test_too_many_requests_are_refused_with_a_scale_that_works(tmp_path: Path) -> None:
    path = written(tmp_path, SERVEGEN + "0,9000,1,100,100,3\n" * 6)

    with pytest.raises(TraceError, match="smaller --rate-scale"):
        opened(path, "servegen")


def test_trace_a_is_the_published_one() -> None:
    trace = sine_with_burst("A", seed=7, burst_s=780.0)

    assert len(trace.requests) == 29_297
    assert json.dumps(trace.requests[1]) == "[0.097, 4202, 176, null]"


def test_unseen_traces_use_seeds_of_their_own() -> None:
    tuned = {name for name, recipe in SUITE.items() if not recipe.unseen}

    assert {"A", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "B"} <= tuned
    assert sum(recipe.unseen and recipe.kind == "jump" for recipe in SUITE.values()) >= 5
