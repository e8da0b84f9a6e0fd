"""`make benchmark-replay`: every trace under every policy, as table, JSON, CSV and plots.

Finished replays are kept in the user's cache: an interrupted suite goes on where it was, and only
what depends on changed code is replayed again.
"""

import argparse
import csv
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry) != HERE)]

from benchmarks.replay import environment  # noqa: E402

sys.path[1:1] = environment.PACKAGES

from benchmarks.replay import standing  # noqa: E402
from benchmarks.replay.arena import arena_of  # noqa: E402
from benchmarks.replay.recipes import NEAR_X4, RECIPES, SUITE, add_trace_options  # noqa: E402
from benchmarks.replay.search import POLICIES, evaluate, single  # noqa: E402
from benchmarks.replay.simulate import Result  # noqa: E402
from benchmarks.replay.tables import FIELDS, Row, table  # noqa: E402
from benchmarks.replay.workers import NotReplayedError, Workers  # noqa: E402
from tandem_operator.sim.traces.readers import TraceError  # noqa: E402

QUICK = ("A", "A4", "A5")
SEARCHES = ("static-best", "dynamo-tuned")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="three traces: under 10 min on 2 cores"
    )
    parser.add_argument(
        "--traces", type=Path, help="folder with the public Azure and Mooncake traces"
    )
    add_trace_options(parser, SUITE | NEAR_X4)
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument(
        "--startup-s", nargs="+", type=float, default=[60.0], metavar="N", help="one after another"
    )
    parser.add_argument(
        "--floor-splits",
        type=int,
        default=1,
        metavar="N",
        help="splits between the roles that Dynamo's floors of one size are tried in (default: 1)",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmark-replay")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="replays at once")
    parser.add_argument(
        "--remembered", action="store_true", help="show what was replayed before, replay nothing"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the chosen replays; the table grows on standard output as it is made."""
    options = parse(arguments)
    try:
        environment.enter()
    except environment.NoEnvironmentError as error:
        print(error, file=sys.stderr)
        return 2
    began_s = time.monotonic()
    rows: list[Row] = []
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.only or (QUICK if options.quick else tuple(SUITE))
    with Workers(options.jobs, remembered_only=options.remembered) as workers:
        for startup_s in options.startup_s:
            for name in names:
                try:
                    for row in _trace(name, startup_s, workers, options):
                        rows.append(row)
                        print(row.line(), flush=True)
                        _write(rows, options.out)
                except TraceError as error:
                    where = "; --traces names the folder of the public traces"
                    print(f"{name}: left out: {error}{where}", file=sys.stderr, flush=True)
    print(f"\n{standing.summary(standing.standings(rows))}")
    print(f"{options.out}/results.json, .csv, .md and plots; {time.monotonic() - began_s:.0f} s")
    return 0


def _trace(
    name: str, startup_s: float, workers: Workers, options: argparse.Namespace
) -> Iterator[Row]:
    # In the simulator's environment from here on.
    from benchmarks.replay.plots import draw  # noqa: PLC0415
    from benchmarks.replay.profiles import profile_of  # noqa: PLC0415

    recipe = RECIPES[name]
    profile = profile_of(recipe.timing)
    arena = arena_of(
        recipe.make(options.traces or HERE),
        profile,
        workers,
        timing=recipe.timing,
        ttft_s=recipe.ttft_s,
        itl_s=recipe.itl_s,
        startup_s=startup_s,
        start=recipe.start,
        floor_splits=options.floor_splits,
    )
    bound: float | None = None
    results: dict[str, Result] = {}
    singles = [p for p in POLICIES if p in options.policies and p not in SEARCHES]
    if not options.remembered:
        # Those that search nothing, at once; each is found remembered below.
        arena.run_all([single(arena, policy, profile) for policy in singles])
    for policy in (p for p in POLICIES if p in options.policies):
        try:
            found = evaluate(arena, policy, profile)
        except NotReplayedError as error:
            print(f"{name}, {policy}: left out: {error}", file=sys.stderr, flush=True)
            continue
        results[policy] = found.result
        if policy == "clairvoyant":
            bound = found.result.good_per_gpu_s
        yield Row(
            name, policy, startup_s, found, found.result.good_per_gpu_s / bound if bound else None
        )
        if found.tried:
            _note_tried(options.out / f"{name}-{startup_s:g}s-{policy}.json", found.tried)
    if results:
        picture = options.out / f"{name}-{startup_s:g}s.png"
        draw(name, results, arena.setup.ttft_s, picture)


def _note_tried(path: Path, tried: Sequence[tuple[str, Result]]) -> None:
    points = [
        {"what": what, "attainment": r.attainment, "good_per_gpu_s": r.good_per_gpu_s}
        for what, r in tried
    ]
    path.write_text(json.dumps(points, indent=1) + "\n")


def _write(rows: Sequence[Row], folder: Path) -> None:
    records = [row.record() for row in rows]
    (folder / "results.json").write_text(json.dumps(records, indent=1) + "\n")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    found = standing.standings(rows)
    parts = (table(rows), standing.table(found), standing.summary(found))
    (folder / "results.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
