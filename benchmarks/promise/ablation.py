"""What each step of the insurance is worth: `python -m benchmarks.promise.ablation`.

The core runs on the quick cases as it is and without one step at a time. Finished runs are kept.
"""

import argparse
from collections.abc import Mapping
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path

from benchmarks.ablation import parts
from benchmarks.ablation.parts import INSURANCE, WHOLE, Part
from benchmarks.ablation.run import without
from benchmarks.promise.bench import Bench
from benchmarks.promise.cases import Case
from benchmarks.promise.contenders import tandem
from benchmarks.promise.kept import CACHE, Kept, Row
from benchmarks.promise.quick import QUICK
from tandem_operator.sim.policy import Tandem

STEPS: dict[str, Part] = {WHOLE: Part("the core as it is"), **INSURANCE}
Task = tuple[Case, str, Path]


def main() -> None:
    """Print each run as it ends, then a table of what each step changes."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise.ablation",
        description=(__doc__ or "").partition("\n")[0],
    )
    parser.add_argument("--only", metavar="GLOB", default="*", help="cases of these names alone")
    parser.add_argument("--parts", nargs="+", choices=tuple(INSURANCE), default=list(INSURANCE))
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are kept")
    options = parser.parse_args()
    cases = [case for case in QUICK if fnmatch(case.name, options.only)]
    steps = (WHOLE, *options.parts)
    tasks = [(case, step, options.cache) for case in cases for step in steps]
    rows: dict[tuple[str, str], Row] = {}
    with get_context("fork").Pool(options.processes, maxtasksperchild=8) as pool:
        for name, step, row in pool.imap_unordered(outcome, tasks):
            rows[name, step] = row
            print(f"{len(rows):3}/{len(tasks)} {name:17} {step:10} {told(row)}", flush=True)
    print(f"\n{table(cases, steps, rows)}")


def outcome(task: Task) -> tuple[str, str, Row]:
    """What came of the core without a step on a case."""
    case, step, cache = task
    bench = Bench(case, Kept(cache / "runs.jsonl"), None)
    if step == WHOLE:
        return case.name, step, tandem(bench)
    with without(STEPS[step]):
        made_by = Path(parts.__file__).read_text()
        return case.name, step, bench.one("tandem", (step, made_by), lambda _: Tandem())


def told(row: Row) -> str:
    """Attainment @ GPU-hours."""
    return f"{row['attainment']:.4f} @ {row['gpu_hours']:.2f}"


def table(cases: list[Case], steps: tuple[str, ...], rows: Mapping[tuple[str, str], Row]) -> str:
    """A step a row: cases that reach their target, mean change of attainment and GPU-hours."""
    lines = [
        "| without | then | targets reached | attainment, mean change | GPU-hours, mean change |",
        "|---|---|---|---|---|",
    ]
    for step in steps:
        reached, points, hours = 0, 0.0, 0.0
        for case in cases:
            row, whole = rows[case.name, step], rows[case.name, WHOLE]
            reached += row["attainment"] >= case.target
            points += 100.0 * (row["attainment"] - whole["attainment"]) / len(cases)
            hours += 100.0 * (row["gpu_hours"] / whole["gpu_hours"] - 1.0) / len(cases)
        change = f"{points:+.2f} points | {hours:+.1f} %"
        lines.append(f"| {step} | {STEPS[step].without} | {reached} of {len(cases)} | {change} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
