"""The figures as tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from benchmarks.prefixes.cases import WAYS
from benchmarks.prefixes.run import Row

FIXED_HEAD = (
    *("trace", "fleet", "cache", "placement", "hit rate", "of endless", "of one cache"),
    *("TTFT p50", "TTFT p95", "attainment", "prefill time"),
)
SCALED_HEAD = (
    *("trace", "cache", "placement", "hit rate", "TTFT p95", "attainment"),
    *("GPU-hours of prefill", "GPU-hours", "over least loaded"),
)


def fixed_table(rows: Iterable[Row], *, bound: Callable[[Row], float]) -> str:
    """Return the table of fixed fleets: hits, and the time that they save.

    `bound` is the hit rate of one cache as large as all of a row's.
    """
    return table(FIXED_HEAD, (_fixed(row, around, bound) for row, around in _groups(rows, True)))


def _fixed(row: Row, around: Mapping[str, Row], bound: Callable[[Row], float]) -> list[str]:
    endless, usual = around.get("endless"), around.get("least-loaded")
    one = bound(row)
    return [
        row["trace"],
        "{}P{}D".format(*row["fleet"]),
        f"x {row['times']:g}",
        WAYS[row["way"]].what,
        f"{row['hit_rate']:.3f}",
        _over(row["hit_rate"], endless["hit_rate"] if endless else None),
        "" if row["way"] == "endless" else _over(row["hit_rate"], one),
        f"{1000 * row['ttft_p50_s']:.0f} ms",
        f"{1000 * row['ttft_p95_s']:.0f} ms",
        f"{row['attainment']:.4f}",
        _over(row["busy_hours"], usual["busy_hours"] if usual else None),
    ]


def scaled_table(rows: Iterable[Row]) -> str:
    """Return the table of Tandem's fleets: GPU-hours at an attainment."""
    return table(SCALED_HEAD, (_scaled(row, around) for row, around in _groups(rows, False)))


def _scaled(row: Row, around: Mapping[str, Row]) -> list[str]:
    usual = around.get("least-loaded")
    return [
        row["trace"],
        f"x {row['times']:g}",
        WAYS[row["way"]].what,
        f"{row['hit_rate']:.3f}",
        f"{1000 * row['ttft_p95_s']:.0f} ms",
        f"{row['attainment']:.4f}",
        f"{row['prefill_gpu_hours']:.2f}",
        f"{row['gpu_hours']:.2f}",
        _over(row["gpu_hours"], usual["gpu_hours"] if usual else None),
    ]


def _groups(rows: Iterable[Row], fixed: bool) -> Iterator[tuple[Row, Mapping[str, Row]]]:
    """Yield each row, and by placement the rows that differ from it by that alone."""
    groups: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        if (row["fleet"] is not None) is fixed:
            key = row["trace"], tuple(row["fleet"] or ()), row["times"]
            groups.setdefault(key, {})[row["way"]] = row
    for each in sorted(groups, key=str):
        group = groups[each]
        yield from ((group[way], group) for way in WAYS if way in group)


def _over(value: float, other: float | None) -> str:
    return f"{value / other:.2f}" if other else ""


def table(head: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    """Return a table of Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
