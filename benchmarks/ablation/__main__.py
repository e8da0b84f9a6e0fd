"""The worth of each step of the decision as it ships: `python -m benchmarks.ablation`.

The core runs behind the router's policy, as it is and without one step at a time. Finished runs are
kept: an interrupted benchmark continues.
"""

import argparse
import json
import os
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path

from benchmarks.ablation.cases import CASES
from benchmarks.ablation.parts import CHANCE, PARTS, WHOLE
from benchmarks.ablation.run import outcome
from benchmarks.ablation.table import table
from benchmarks.promise.kept import CACHE, Row


def main() -> None:
    """Print each run as it ends, then the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", metavar="GLOB", default="*", help="cases of these names alone")
    parser.add_argument(
        "--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), help="these steps alone"
    )
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are kept")
    parser.add_argument("--json", type=Path, help="where to write each run's figures")
    options = parser.parse_args()
    steps = tuple(dict.fromkeys((WHOLE, *CHANCE, *options.parts)))
    names = [name for name in CASES if fnmatch(name, options.only)]
    tasks = [(name, step, options.cache) for step in steps for name in names]
    rows: dict[tuple[str, str], Row] = {}
    with get_context("fork").Pool(options.processes, maxtasksperchild=8) as pool:
        for name, step, row in pool.imap_unordered(outcome, tasks):
            rows[name, step] = row
            figures = f"{row['attainment']:.4f} @ {row['good_per_gpu_s']:.2f}"
            print(f"{len(rows):3}/{len(tasks)} {name:15} without {step:12} {figures}", flush=True)
    print(f"\n{table(rows, steps)}")
    if options.json is not None:
        document = [{"case": n, "step": s, "row": row} for (n, s), row in rows.items()]
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
