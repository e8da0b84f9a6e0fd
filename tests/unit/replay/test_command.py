"""The command line refuses what cannot work in one sentence, and the table shows what was found."""

from pathlib import Path

import pytest

from benchmarks.replay import environment
from benchmarks.replay.recipes import SUITE
from benchmarks.replay.run import Fleet, main, parse
from benchmarks.replay.simulate import Result
from benchmarks.replay.suite import Row, summary, table

NEEDED = ["--trace", "t.csv", "--format", "azure", "--policy", "tandem", "--json", "out.json"]


def row(policy: str, *, good: int, share: float | None = None, chosen: str | None = None) -> Row:
    result = Result(
        requests=1000,
        completed=1000,
        good=good,
        gpu_s=250.0,
        duration_s=100.0,
        prefill_mean=1.0,
        decode_mean=1.0,
        ttft_s={"p95": 0.4},
        tpot_s={"p95": 0.015},
        changes=3,
        moments=(),
    )
    return Row("A", SUITE["A"], policy, 60.0, chosen, result, share)


@pytest.mark.parametrize(("text", "fleet"), [("2P1D", (2, 1)), ("10p4d", (10, 4)), ("5,3", (5, 3))])
def test_a_fleet_is_read_as_people_write_it(text: str, fleet: tuple[int, int]) -> None:
    assert Fleet.parse(text) == Fleet(*fleet)


@pytest.mark.parametrize(
    "more",
    [
        ["--rate-scale", "-1"],
        ["--ttft-ms", "nan"],
        ["--start", "2P"],
        ["--start", "0P1D"],
        ["--policy", "best"],
    ],
)
def test_an_impossible_option_is_refused(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse([*NEEDED, *more])

    assert refused.value.code == 2
    assert more[1] in capsys.readouterr().err


def test_a_trace_that_cannot_be_read_ends_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,10,\n")

    code = main(["--trace", str(trace), *NEEDED[2:]])

    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith(f"{trace}:2: GeneratedTokens")
    assert said.count("\n") == 1


def test_the_cache_is_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path))

    assert environment.cache_directory() == tmp_path


def test_the_table_has_a_line_for_each_trace_and_a_column_for_each_policy() -> None:
    rows = [row("clairvoyant", good=980), row("dynamo-tuned", good=890, chosen="floor 4P2D")]

    assert table(rows).splitlines() == [
        "| trace | clairvoyant | dynamo-tuned |",
        "|---|---|---|",
        "| A | 0.980 @ 3.92 | 0.890 @ 3.56 (4P2D) |",
    ]


def test_the_summary_tells_mean_worst_and_the_share_of_the_bound() -> None:
    told = summary([row("tandem", good=960, share=0.8), row("tandem", good=940, share=0.7)])

    assert "2 jump traces: attainment 0.950 in the mean, 0.940 at worst, 0.75 of the bound" in told
