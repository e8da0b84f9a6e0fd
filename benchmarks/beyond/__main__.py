"""The gain of each ability beyond replica counts: `python -m benchmarks.beyond`.

Finished runs are kept in the user's cache: an interrupted benchmark goes on where it was.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.beyond import table
from benchmarks.beyond.run import outcome, traces
from benchmarks.beyond.steps import STEPS
from benchmarks.replay.recipes import add_trace_options
from benchmarks.simulator.kept import CACHE


def main() -> None:
    """Print each run as it ends, then the tables; write them as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beyond", description=(__doc__ or "").partition("\n")[0]
    )
    add_trace_options(parser, traces())
    parser.add_argument("--steps", nargs="+", choices=tuple(STEPS), help="these steps alone")
    parser.add_argument("--startup-s", type=float, default=60.0)
    parser.add_argument(
        "--cache", type=Path, default=CACHE / "beyond", help="where finished runs are kept"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for step in options.steps or STEPS:
        for name in options.only or traces():
            row = outcome(name, STEPS[step], startup_s=options.startup_s, folder=options.cache)
            results.setdefault(step, {})[name] = row
            print(
                f"{name:4} {step:10} {row['attainment']:.3f} @ {row['good_per_gpu_s']:.2f}  "
                f"late: TTFT {row['late_ttft']}, TPOT {row['late_tpot']}; "
                f"overflowed {row['overflowed']}; {row['cpu_s']:.0f} s",
                flush=True,
            )
    last = next(reversed(results))
    print(f"\n{table.ladder(results)}\n\n{table.by_trace(results)}")
    print(f"\nWhere `{last}` loses:\n\n{table.lost(results[last])}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
