"""The command line refuses what cannot work in one sentence, and the table shows what was found."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.replay import environment
from benchmarks.replay.run import Fleet, main, parse
from benchmarks.replay.search import Found
from benchmarks.replay.simulate import Result
from benchmarks.replay.standing import standings, summary
from benchmarks.replay.tables import Row, table
from tests.tools.replay.results import result

ROOT = Path(__file__).parents[3]
NEEDED = ["--trace", "t.csv", "--format", "azure", "--policy", "tandem", "--json", "out.json"]


def row(
    policy: str,
    *,
    good: int,
    gpu_s: float = 250.0,
    share: float | None = None,
    chosen: str | None = None,
    startup_s: float = 60.0,
    trace: str = "A",
    tried: tuple[tuple[str, Result], ...] = (),
) -> Row:
    found = Found(result(good, gpu_s=gpu_s), chosen, tried)
    return Row(trace, policy, startup_s, found, share)


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
        ["--gpu-budget", "0"],
        ["--jobs", "-2"],
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
    rows = [
        row("clairvoyant", good=980),
        row("dynamo-tuned", good=890, chosen="floor 4P2D"),
        row("clairvoyant", good=970, startup_s=15.0),
    ]

    assert table(rows).splitlines() == [
        "| start-up 60 s | clairvoyant | dynamo-tuned |",
        "|---|---|---|",
        "| A | 0.980 @ 3.92 | 0.890 @ 3.56 (4P2D) |",
        "",
        "| start-up 15 s | clairvoyant | dynamo-tuned |",
        "|---|---|---|",
        "| A | 0.970 @ 3.88 |  |",
    ]


def test_the_summary_tells_mean_worst_and_the_share_of_the_bound() -> None:
    rows = [
        row("tandem", good=960, share=0.8),
        row("static-best", good=990, gpu_s=400.0),
        row("tandem", good=940, share=0.7, trace="A5"),
    ]

    told = summary(standings(rows))

    assert told == (
        "start-up 60 s, 2 jump traces: attainment 0.950 in the mean, 0.940 at worst, 0.75 of the "
        "clairvoyant, 1.55 of the best fixed fleet with 0.62 of its GPU-hours"
    )


def test_tandem_is_held_to_the_best_floors_on_either_side_of_the_objective() -> None:
    floors = (
        ("floor 5P3D", result(980, gpu_s=200.0)),
        ("floor 6P4D", result(990, gpu_s=400.0)),
        ("floor 4P2D", result(900, gpu_s=250.0)),
        ("floor 3P2D", result(945, gpu_s=160.0)),
    )
    rows = [
        row("tandem", good=930),
        row("dynamo-default", good=200, gpu_s=50.0),
        row("dynamo-tuned", good=980, gpu_s=200.0, tried=floors),
        row("dynamo-default", good=100, startup_s=300.0),
        row("tandem", good=900, startup_s=300.0),
    ]

    ours, slow = standings(rows)

    assert ours.ahead_of_default is False
    assert ours.of_tuned == pytest.approx((930 / 250) / (980 / 200))
    assert ours.ahead_of_near is False
    assert (ours.of_static, ours.gpu_share) == (None, None)
    assert slow.ahead_of_default is True
    assert slow.of_tuned is None


@pytest.mark.parametrize("script", ["replay/suite.py", "replay/run.py", "simulator/record.py"])
def test_the_commands_start_in_a_python_that_has_no_packages(script: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-S", str(ROOT / "benchmarks" / script), "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )

    assert (shown.returncode, shown.stderr) == (0, "")
