"""What each step of the decision is worth on each trace: `python -m benchmarks.ablation`.

The core runs in our simulator as it is and without one step at a time. Finished runs are kept in
the user's cache: an interrupted benchmark goes on where it was.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.ablation.parts import PARTS, WHOLE
from benchmarks.ablation.run import outcome
from benchmarks.ablation.table import by_kind, by_trace
from benchmarks.replay.recipes import SUITE, add_trace_options
from benchmarks.simulator.kept import CACHE

PUBLIC = ("azure-slice", "azure-x4", "mooncake")


def main(argv: list[str] | None = None) -> int:
    """Print each run as it ends, then the tables; write them as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablation", description=(__doc__ or "").partition("\n")[0]
    )
    add_trace_options(parser, SUITE)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), help="these steps alone")
    parser.add_argument(
        "--traces", type=Path, help=f"folder with the public traces, for {', '.join(PUBLIC)}"
    )
    parser.add_argument("--startup-s", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--cache", type=Path, default=CACHE / "ablation", help="where finished runs are kept"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    wanted = options.only or [n for n in SUITE if n not in PUBLIC or options.traces]
    missing = [name for name in wanted if name in PUBLIC and options.traces is None]
    if missing:
        parser.error(f"{', '.join(missing)}: made of a public trace, say where with --traces")
    chosen = dict.fromkeys((WHOLE, *(options.parts or PARTS)))
    results: dict[str, dict[str, dict[str, Any]]] = {part: {} for part in chosen}
    with ProcessPoolExecutor(options.jobs) as workers:
        coming = {
            workers.submit(
                outcome,
                name,
                part,
                startup_s=options.startup_s,
                folder=options.cache,
                traces=options.traces or Path(),
            ): (part, name)
            for part in chosen
            for name in wanted
        }
        for done, each in enumerate(as_completed(coming), 1):
            part, name = coming[each]
            row = results[part][name] = each.result()
            print(
                f"{done:4} of {len(coming)}  {name:12} without {part:12} "
                f"{row['attainment']:.3f} @ {row['good_per_gpu_s']:.2f}; {row['cpu_s']:.0f} s",
                flush=True,
            )
    print(f"\n{by_kind(results)}\n\n{by_trace(results, wanted)}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
