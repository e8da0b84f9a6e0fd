from pathlib import Path

import pytest

from benchmarks.tick.__main__ import LOADS, Timed, figures, main, measure


def test_every_tick_of_a_load_is_timed_and_its_memory_weighed() -> None:
    timed = measure(LOADS["quiet"], span_s=60.0)

    row = figures(timed)

    assert row["ticks"] == len(timed.trips_s) >= 5
    assert 0.0 < row["p50_ms"] <= row["p99_ms"] <= row["most_ms"]
    assert row["memory_kib"] > 1.0


def test_figures_are_milliseconds() -> None:
    timed = Timed()
    timed.ticks_s, timed.trips_s = [0.001, 0.002, 0.009], [0.0005]

    row = figures(timed)

    assert (row["p50_ms"], row["most_ms"], row["memory_p50_ms"]) == (2.0, 9.0, 0.5)


def test_a_span_of_nothing_is_refused_with_a_value_that_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--span-s", "0"])

    assert "--span-s must be greater than 0, such as 1500" in capsys.readouterr().err


def test_figures_are_written_as_json(tmp_path: Path) -> None:
    target = tmp_path / "tick.json"

    main(["--load", "quiet", "--span-s", "30", "--json", str(target)])

    assert '"p99_ms"' in target.read_text()
