"""`make benchmark-replay`: every trace under every policy, as table, JSON, CSV and plots.

Finished replays are kept in the user's cache: an interrupted suite goes on where it was, and only
what depends on changed code is replayed again.
"""

import argparse
import csv
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [str(HERE.parents[1]), *(entry for entry in sys.path if Path(entry) != HERE)]

from benchmarks.replay import environment  # noqa: E402
from benchmarks.replay.recipes import SUITE, Recipe  # noqa: E402
from benchmarks.replay.setup import USUAL_BUDGET, Setup, context_of, fitted_start  # noqa: E402
from benchmarks.replay.simulate import Result, prepared  # noqa: E402
from benchmarks.replay.traces import TraceError  # noqa: E402

QUICK = ("A", "A4", "A5", "B")
PUBLIC = ("azure2023_conv.csv", "mooncake_conversation_trace.jsonl")
FIELDS = (
    "trace",
    "kind",
    "unseen",
    "policy",
    "chosen",
    "startup_s",
    "attainment",
    "good_per_gpu_s",
    "gpu_hours",
    "of_clairvoyant",
    "ttft_p95_s",
    "tpot_p95_s",
    "changes",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    trace: str
    recipe: Recipe
    policy: str
    startup_s: float
    chosen: str | None
    result: Result
    of_clairvoyant: float | None

    def record(self) -> dict[str, Any]:
        """For JSON and CSV."""
        result = self.result
        return {
            "trace": self.trace,
            "kind": self.recipe.kind,
            "unseen": self.recipe.unseen,
            "policy": self.policy,
            "chosen": self.chosen,
            "startup_s": self.startup_s,
            "requests": result.requests,
            "completed": result.completed,
            "good": result.good,
            "attainment": round(result.attainment, 4),
            "good_per_gpu_s": round(result.good_per_gpu_s, 4),
            "gpu_hours": round(result.gpu_s / 3600.0, 4),
            "of_clairvoyant": self.of_clairvoyant and round(self.of_clairvoyant, 3),
            "ttft_p95_s": round(result.ttft_s["p95"], 4),
            "tpot_p95_s": round(result.tpot_s["p95"], 5),
            "changes": result.changes,
        }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="four traces, coarse grids: 10 min")
    parser.add_argument(
        "--traces", type=Path, help="folder with the public Azure and Mooncake traces"
    )
    parser.add_argument("--only", nargs="*", choices=tuple(SUITE), help="these traces alone")
    parser.add_argument("--policies", nargs="*", help="these policies alone")
    parser.add_argument("--startup-s", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build" / "benchmark-replay")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; the table grows on standard output as it is made."""
    options = parse(arguments)
    try:
        environment.enter()
    except environment.NoEnvironmentError as error:
        print(error, file=sys.stderr)
        return 2
    began = time.monotonic()
    rows: list[Row] = []
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only or (QUICK if options.quick else SUITE):
        try:
            rows.extend(_trace(name, options))
        except TraceError as error:
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
        _write(rows, options.out)
    print(f"\n{summary(rows)}")
    print(f"{options.out}/results.json, .csv, .md and plots; {time.monotonic() - began:.0f} s")
    return 0


def _trace(name: str, options: argparse.Namespace) -> list[Row]:
    # In the simulator's environment from here on.
    from benchmarks.replay.plots import draw  # noqa: PLC0415
    from benchmarks.replay.profiles import profile_of  # noqa: PLC0415
    from benchmarks.replay.search import POLICIES, Arena, evaluate, work  # noqa: PLC0415

    recipe = SUITE[name]
    trace = recipe.make(options.traces or HERE)
    profile = profile_of(recipe.timing)
    setup = Setup(
        timing=recipe.timing,
        ttft_s=recipe.ttft_s,
        itl_s=recipe.itl_s,
        startup_s=options.startup_s,
        start=recipe.start or fitted_start(trace, profile, recipe.itl_s),
        gpu_budget=USUAL_BUDGET,
        max_model_len=context_of(trace),
    )
    peak = sum(role.peak for role in work(trace, setup, profile))
    setup = setup.with_budget(max(USUAL_BUDGET, math.ceil(2.0 * peak)))
    folder = environment.cache_directory() / "replay"
    _, digest = prepared(trace, folder / "traces")
    arena = Arena(trace, digest, setup, folder, jobs=options.jobs, quick=options.quick)
    bound: float | None = None
    rows: list[Row] = []
    results: dict[str, Result] = {}
    # The bound first: the others are shown beside it.
    for policy in ("clairvoyant", *(p for p in POLICIES if p != "clairvoyant")):
        if options.policies and policy not in options.policies:
            continue
        found = evaluate(arena, policy, lambda: profile)
        results[policy] = found.result
        if policy == "clairvoyant":
            bound = found.result.good_per_gpu_s
        share = found.result.good_per_gpu_s / bound if bound else None
        rows.append(Row(name, recipe, policy, options.startup_s, found.chosen, found.result, share))
        print(_line(rows[-1].record()), flush=True)
        if found.tried:
            points = [
                {"what": what, "attainment": r.attainment, "good_per_gpu_s": r.good_per_gpu_s}
                for what, r in found.tried
            ]
            path = options.out / f"{name}-{policy}-grid.json"
            path.write_text(json.dumps(points, indent=1) + "\n")
    draw(trace.name, results, recipe.ttft_s, options.out / f"{name}.png")
    return rows


def _line(record: dict[str, Any]) -> str:
    share = record["of_clairvoyant"]
    return (
        f"{record['trace']:12s} {record['policy']:15s} {record['attainment']:.3f} "
        f"@ {record['good_per_gpu_s']:6.3f}  {record['gpu_hours']:6.2f} GPU-h "
        f"{'' if share is None else f'{share:5.2f} of the bound'}  {record['chosen'] or ''}"
    )


def _write(rows: Sequence[Row], folder: Path) -> None:
    records = [row.record() for row in rows]
    (folder / "results.json").write_text(json.dumps(records, indent=1) + "\n")
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, FIELDS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(records)
    (folder / "results.md").write_text(table(rows) + "\n\n" + summary(rows) + "\n")


def table(rows: Sequence[Row]) -> str:
    """Attainment @ good requests per GPU-second, a trace a line, a policy a column."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    lines = [
        "| trace | " + " | ".join(policies) + " |",
        "|---|" + "---|" * len(policies),
    ]
    for name in dict.fromkeys(row.trace for row in rows):
        cells = []
        for policy in policies:
            found = [row for row in rows if (row.trace, row.policy) == (name, policy)]
            cells.append(_cell(found[0]) if found else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row) -> str:
    chosen = f" ({row.chosen.rpartition(' ')[2]})" if row.chosen else ""
    return f"{row.result.attainment:.3f} @ {row.result.good_per_gpu_s:.2f}{chosen}"


def summary(rows: Sequence[Row]) -> str:
    """How Tandem stands on each kind of trace."""
    lines = []
    ours = [row for row in rows if row.policy == "tandem"]
    for kind in dict.fromkeys(row.recipe.kind for row in ours):
        for unseen in (False, True):
            group = [r for r in ours if (r.recipe.kind, r.recipe.unseen) == (kind, unseen)]
            if not group:
                continue
            attained = [row.result.attainment for row in group]
            shares = [row.of_clairvoyant for row in group if row.of_clairvoyant]
            share = f"{sum(shares) / len(shares):.2f} of the bound" if shares else "no bound"
            lines.append(
                f"tandem on {len(group)} {'unseen ' if unseen else ''}{kind} traces: attainment "
                f"{sum(attained) / len(group):.3f} in the mean, {min(attained):.3f} at worst, "
                f"{share}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
