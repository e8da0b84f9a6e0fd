"""Figures of several runs become medians with their spread, each compared with its own alone."""

from benchmarks.router.cores import Cores, on_cores
from benchmarks.router.report import ALONE, CEILING, Spread, summarise, table, too_slow


def run(*, p50: float, tokens: float, **more: float) -> dict[str, float]:
    figures = {"ttft_p50_ms": p50, "ttft_p99_ms": 2 * p50, "tokens_per_s": tokens}
    return figures | {"tokens_per_core_s": tokens, "rss_mib": 50.0, "failed": 0.0} | more


FIGURES = {
    "flood": {
        ALONE: [run(p50=p50, tokens=0.0, **{CEILING: 300.0}) for p50 in (1.0, 2.0, 4.0)],
        "ours": [run(p50=p50, tokens=100.0) for p50 in (2.0, 4.0, 5.0)],
        "theirs": [run(p50=8.0, tokens=200.0) for _ in range(3)],
    }
}


def test_what_a_router_adds_is_taken_run_by_run() -> None:
    row = summarise(FIGURES)["flood"]["ours"]

    assert row["added_ttft_p50_ms"] == Spread(median=1.0, least=1.0, most=2.0)
    assert row["alone_times_ttft"] == Spread(median=2.0, least=1.25, most=2.0)


def test_ends_that_are_not_twice_as_fast_are_named() -> None:
    [sentence] = too_slow(summarise(FIGURES))

    assert sentence.startswith("flood, theirs: alone both ends are only 1.5 times")
    assert sentence.endswith("100% busy: it was the slowest all the same")


def test_figures_of_a_router_that_had_time_left_are_not_its_own() -> None:
    idle = [run(p50=8.0, tokens=200.0, tokens_per_core_s=400.0) for _ in range(3)]

    [sentence] = too_slow(summarise({"flood": FIGURES["flood"] | {"theirs": idle}}))

    assert sentence.endswith("50% busy: figures not its own")


def test_the_table_has_the_ends_own_ttft_and_what_routers_added() -> None:
    rows = table(summarise(FIGURES)).splitlines()

    assert rows[2].startswith(f"| flood | {ALONE} | 2.00 (1.00..4.00) | 4.00 (2.00..8.00) |")
    assert rows[3].startswith("| flood | ours | 1.00 (1.00..2.00) |")
    assert rows[3].endswith("| 3.0 (3.0..3.0) | 2.0 (1.2..2.0) |")
    assert len({row.count("|") for row in rows[:-1]}) == 1


def test_the_measured_process_has_a_core_to_itself_where_there_are_two() -> None:
    assert Cores.of({4, 2, 3}) == Cores(measured={2}, load={3, 4})
    assert Cores.of({0}) == Cores(measured={0}, load={0})
    assert on_cores({3, 1}, ["sleep", "1"]) == ["taskset", "--cpu-list", "1,3", "sleep", "1"]
