"""The gain of placing prompts by what is cached: `python -m benchmarks.prefixes`.

Fixed fleets first, then the GPU-hours that Tandem takes. All of it is simulated in virtual time.
"""

import argparse
import json
import os
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

from benchmarks.prefixes.cases import WAYS
from benchmarks.prefixes.run import Row, in_one_cache, run
from benchmarks.prefixes.table import fixed_table, scaled_table
from benchmarks.told import told

Task = tuple[str, str, tuple[int, int] | None, float]

FIXED: dict[str, tuple[tuple[tuple[int, int], float], ...]] = {
    "conversations": (((2, 2), 1), ((4, 2), 1), ((8, 3), 1), ((2, 2), 8), ((4, 2), 8)),
    "agents": (((4, 3), 1), ((8, 3), 1)),
    "alone": (((4, 4), 1),),
}
SCALED: dict[str, tuple[float, ...]] = {"conversations-4": (1, 8), "agents": (1,), "alone": (1,)}
SCALED_WAYS = ("least-loaded", "prefix", "endless")


def main() -> None:
    """Print each run as it ends, then the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefixes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--traces", metavar="FOLDER", type=Path, help="where public traces are")
    parser.add_argument("--only", nargs="+", metavar="TRACE", help="these traces alone")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--json", type=Path, help="each run's figures; those there are not repeated"
    )
    options = parser.parse_args()
    rows: list[Row] = []
    if options.json is not None and options.json.exists():
        rows = json.loads(options.json.read_text())
    known = {_task(row) for row in rows}
    tasks = [task for task in _tasks(options.only, options.ways) if task not in known]
    with get_context("fork").Pool(options.processes, maxtasksperchild=4) as pool:
        jobs = [(task, options.traces) for task in tasks]
        made = pool.imap_unordered(_run, jobs)
        rows = told(made, line=_line, path=options.json, before=rows)

    def bound(row: Row) -> float:
        return in_one_cache(
            row["trace"], pods=row["fleet"][0], times=row["times"], folder=options.traces
        )

    print(f"\n{fixed_table(rows, bound=bound)}\n\n{scaled_table(rows)}")


def _line(row: Row) -> str:
    fleet = "Tandem" if row["fleet"] is None else "{}P{}D".format(*row["fleet"])
    return (
        f"{row['trace']:16} {row['way']:13} {fleet:7} x{row['times']:g}"
        f"  hits {row['hit_rate']:.4f}  p95 {row['ttft_p95_s']:.3f} s"
        f"  {row['attainment']:.4f} @ {row['gpu_hours']:.2f} GPU-hours"
    )


def _tasks(only: Sequence[str] | None, ways: Sequence[str]) -> list[Task]:
    fixed = [
        (name, way, fleet, times)
        for name, fleets in FIXED.items()
        for fleet, times in fleets
        for way in ways
    ]
    scaled = [
        (name, way, None, times)
        for name, caches in SCALED.items()
        for times in caches
        for way in ways
        if way in SCALED_WAYS
    ]
    return [task for task in (*fixed, *scaled) if only is None or task[0] in only]


def _task(row: Row) -> Task:
    return row["trace"], row["way"], row["fleet"] and tuple(row["fleet"]), row["times"]


def _run(job: tuple[Task, Path | None]) -> Row:
    (name, way, fleet, times), folder = job
    return run(name, way, fleet=fleet, times=times, folder=folder)


if __name__ == "__main__":
    main()
