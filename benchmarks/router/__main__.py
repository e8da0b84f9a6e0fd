"""`python -m benchmarks.router`: what the router adds to TTFT and costs per token.

The generator and the trivial upstream are measured alone first; they must be at least twice as
fast as a router for its figures to be its own.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.router.generator import Load, run
from benchmarks.router.targets import (
    Target,
    install_vllm_router,
    tandem_router,
    upstream,
    vllm_router,
)

Start = Callable[[Target], AbstractContextManager[Target]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    runs: int
    paced: tuple[Load, ...]
    flood: Load


FULL = Plan(
    runs=5,
    paced=(
        Load(streams=1, tokens=20, gap_s=0.005, ramp_s=1.0, window_s=6.0),
        Load(streams=100, tokens=40, gap_s=0.1, ramp_s=4.0, window_s=8.0),
        Load(streams=1000, tokens=40, gap_s=0.25, ramp_s=10.0, window_s=10.0),
    ),
    flood=Load(streams=100, tokens=500, gap_s=0.001, ramp_s=1.0, window_s=6.0),
)
QUICK = Plan(
    runs=1,
    paced=(
        Load(streams=1, tokens=20, gap_s=0.005, ramp_s=0.5, window_s=2.0),
        Load(streams=50, tokens=20, gap_s=0.05, ramp_s=1.0, window_s=3.0),
    ),
    flood=Load(streams=50, tokens=200, gap_s=0.001, ramp_s=0.5, window_s=3.0),
)


def measure(load: Load, target: Target) -> dict[str, float]:
    """Return the figures of one run."""
    result = asyncio.run(
        run(load, port=target.port, prefill_port=target.prefill_port, cpu_s=target.cpu_s)
    )
    ttft_s = sorted(result.ttft_s)
    return {
        "requests": len(ttft_s),
        "failed": result.failed,
        "ttft_p50_ms": 1000 * quantile(ttft_s, 0.5),
        "ttft_p99_ms": 1000 * quantile(ttft_s, 0.99),
        "tokens_per_s": result.tokens / load.window_s,
        "tokens_per_core_s": result.tokens / max(result.cpu_s, 0.01),
        "rss_mib": target.rss_mib(),
        "machine_load": os.getloadavg()[0],
    }


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of an ordered list, 0 of an empty one."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def spread(values: list[float]) -> dict[str, float]:
    """Return median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def main() -> None:
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it works")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/router"))
    parser.add_argument("--no-vllm-router", action="store_true", help="measure ours only")
    arguments = parser.parse_args()
    plan, folder = QUICK if arguments.quick else FULL, arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    starts: dict[str, Start] = {
        "upstream alone": contextlib.nullcontext,
        "tandem-router": lambda engine: tandem_router(engine, folder),
    }
    if not arguments.no_vllm_router:
        executable = install_vllm_router(folder)
        starts["vllm-router"] = lambda engine: vllm_router(engine, folder, executable=executable)
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    loads = {f"{load.streams} streams": load for load in plan.paced} | {"flood": plan.flood}
    for number in range(plan.runs):
        for name, start in starts.items():
            for label, load in loads.items():
                with upstream(folder) as engine, start(engine) as target:
                    figure = measure(load, target)
                figures.setdefault(label, {}).setdefault(name, []).append(figure)
                print(
                    f"run {number + 1}/{plan.runs}  {label:14} {name:15}"
                    f" p50 {figure['ttft_p50_ms']:8.2f} ms  p99 {figure['ttft_p99_ms']:8.2f} ms"
                    f" {figure['tokens_per_s']:9.0f} tokens/s"
                    f" {figure['tokens_per_core_s']:9.0f} tokens/s/core"
                    f" failed {figure['failed']:.0f}  machine load {figure['machine_load']:.1f}",
                    flush=True,
                )
    report = summarise(figures)
    document = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "loads": {label: asdict(load) for label, load in loads.items()},
        "runs": figures,
        "summary": report,
    }
    path = folder / ("quick.json" if arguments.quick else "router.json")
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(table(report))
    print(f"written: {path}")


def summarise(
    figures: dict[str, dict[str, list[dict[str, float]]]],
) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return median and spread over the runs; TTFT as what was added to the upstream alone."""
    summary: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for label, by_target in figures.items():
        alone = by_target["upstream alone"]
        for name, runs in by_target.items():
            row = {
                key: spread([figure[key] for figure in runs])
                for key in ("tokens_per_s", "tokens_per_core_s", "rss_mib", "failed")
            }
            for key in ("ttft_p50_ms", "ttft_p99_ms"):
                base = [0.0 if name == "upstream alone" else figure[key] for figure in alone]
                row[f"added_{key}" if any(base) else key] = spread(
                    [figure[key] - less for figure, less in zip(runs, base, strict=True)]
                )
            summary.setdefault(label, {})[name] = row
    return summary


def table(summary: dict[str, dict[str, dict[str, dict[str, float]]]]) -> str:
    """Return the summary as a Markdown table."""

    def cell(row: dict[str, dict[str, float]], *keys: str, digits: int) -> str:
        for key in keys:
            if key in row:
                value = row[key]
                low, high = f"{value['min']:.{digits}f}", f"{value['max']:.{digits}f}"
                return f"{value['median']:.{digits}f} ({low}..{high})"
        return ""

    lines = [
        "| load | target | added TTFT p50, ms | added TTFT p99, ms | tokens/s |"
        " tokens/s per core | RSS, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, by_target in summary.items():
        for name, row in by_target.items():
            cells = [
                cell(row, "added_ttft_p50_ms", "ttft_p50_ms", digits=2),
                cell(row, "added_ttft_p99_ms", "ttft_p99_ms", digits=2),
                cell(row, "tokens_per_s", digits=0),
                cell(row, "tokens_per_core_s", digits=0),
                cell(row, "rss_mib", digits=0),
            ]
            lines.append(f"| {label} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n(upstream alone: TTFT itself, not added)"


if __name__ == "__main__":
    main()
