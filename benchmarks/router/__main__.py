"""`python -m benchmarks.router`: the router's addition to TTFT and its cost per token.

The measured router has a core to itself; load generator and trivial upstream share the others. Both
ends are measured alone first, with and without pace; they must be at least twice as fast as a
router for its figures to be its own.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.router import generator
from benchmarks.router.cores import Cores
from benchmarks.router.generator import Load
from benchmarks.router.report import ALONE, CEILING, summarise, table, too_slow
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
    """The extent of a measurement; `ceiling_s` is how long both ends alone run without pace."""

    runs: int
    paced: tuple[Load, ...]
    flood: Load
    ceiling_s: float


FULL = Plan(
    runs=5,
    paced=(
        Load(streams=1, tokens=20, gap_s=0.005, ramp_s=1.0, window_s=6.0),
        Load(streams=100, tokens=40, gap_s=0.1, ramp_s=4.0, window_s=8.0),
        Load(streams=1000, tokens=40, gap_s=0.25, ramp_s=10.0, window_s=10.0),
    ),
    flood=Load(streams=100, tokens=500, gap_s=0.0004, ramp_s=1.0, window_s=6.0),
    ceiling_s=3.0,
)
QUICK = Plan(
    runs=1,
    paced=(
        Load(streams=1, tokens=20, gap_s=0.005, ramp_s=0.5, window_s=2.0),
        Load(streams=50, tokens=20, gap_s=0.05, ramp_s=1.0, window_s=3.0),
    ),
    flood=Load(streams=50, tokens=200, gap_s=0.0002, ramp_s=0.5, window_s=3.0),
    ceiling_s=1.0,
)


def measure(load: Load, target: Target, *, program: Path, cores: Cores) -> dict[str, float]:
    """Return the figures of one run."""
    result = generator.run(
        load,
        program=program,
        cores=cores.load,
        pid=target.pid,
        port=target.port,
        prefill_port=target.prefill_port,
    )
    ttft_s = sorted(result.ttft_s)
    return {
        "requests": len(ttft_s),
        "failed": result.failed,
        "ttft_p50_ms": 1000 * quantile(ttft_s, 0.5),
        "ttft_p99_ms": 1000 * quantile(ttft_s, 0.99),
        "tokens_per_s": result.tokens / load.window_s,
        "tokens_per_core_s": result.tokens / max(result.cpu_s, 1e-6),
        "rss_mib": target.rss_mib(),
        "machine_load": os.getloadavg()[0],
    }


def version_of(python: Path) -> str:
    """Return the version and the compiler of a Python."""
    said = subprocess.check_output([python, "-c", "import sys; print(sys.version)"], text=True)
    return said.strip().replace("\n", " ")


def quantile(ordered: list[float], share: float) -> float:
    """Return a quantile of an ordered list.

    Raises:
        ValueError: nothing was measured.
    """
    if not ordered:
        raise ValueError("no request began and ended well inside the window")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.router", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it works")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/router"))
    parser.add_argument("--no-vllm-router", action="store_true", help="measure ours only")
    parser.add_argument(
        "--stream-interval", type=int, default=1, help="tokens of each event, as vLLM's option"
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="runs our router: one whose environment has its packages (default: this one)",
    )
    arguments = parser.parse_args()
    plan, folder = QUICK if arguments.quick else FULL, arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    program, cores = generator.build(), Cores.here()
    engines = partial(
        upstream, program, folder, cores=cores, stream_interval=arguments.stream_interval
    )
    starts: dict[str, Start] = {
        ALONE: contextlib.nullcontext,
        "tandem-router": lambda engine: tandem_router(
            engine, folder, cores=cores, python=arguments.python
        ),
    }
    if not arguments.no_vllm_router:
        executable = install_vllm_router(folder)
        starts["vllm-router"] = lambda engine: vllm_router(
            engine, folder, cores=cores, executable=executable
        )
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    loads = {f"{load.streams} streams": load for load in plan.paced} | {"flood": plan.flood}
    for number in range(plan.runs):
        for name, start in starts.items():
            for label, load in loads.items():
                with engines() as engine, start(engine) as target:
                    figure = measure(load, target, program=program, cores=cores)
                    if name == ALONE:
                        free = generator.without_pace(load, window_s=plan.ceiling_s)
                        unpaced = measure(free, target, program=program, cores=cores)
                        figure[CEILING] = max(unpaced["tokens_per_s"], figure["tokens_per_s"])
                figures.setdefault(label, {}).setdefault(name, []).append(figure)
                print(
                    f"run {number + 1}/{plan.runs}  {label:12} {name:15}"
                    f" p50 {figure['ttft_p50_ms']:8.2f} ms  p99 {figure['ttft_p99_ms']:8.2f} ms"
                    f" {figure['tokens_per_s']:9.0f} tokens/s"
                    f" {figure['tokens_per_core_s']:9.0f} tokens/s/core"
                    f" failed {figure['failed']:.0f}  machine load {figure['machine_load']:.1f}",
                    flush=True,
                )
    summary = summarise(figures)
    document = {
        "machine": {
            "cores": os.cpu_count(),
            "measured_on": sorted(cores.measured),
            "load_on": sorted(cores.load),
            "python": version_of(arguments.python),
        },
        "loads": {label: asdict(load) for label, load in loads.items()},
        "runs": figures,
        "summary": {
            label: {
                name: {key: asdict(spread) for key, spread in row.items()}
                for name, row in by_target.items()
            }
            for label, by_target in summary.items()
        },
    }
    path = folder / ("quick.json" if arguments.quick else "router.json")
    path.write_text(json.dumps(document, indent=2) + "\n")
    print(table(summary))
    for sentence in too_slow(summary):
        print(f"warning: {sentence}")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
