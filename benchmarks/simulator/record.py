"""Run the fleets in NVIDIA's replay and note the results, and the timing that it used.

`python3 benchmarks/simulator/record.py --traces FOLDER` writes `nvidia.json` beside this file. It
runs in the environment of `benchmarks/replay`, and finds there what was replayed before.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.replay import environment  # noqa: E402

sys.path[1:1] = environment.PACKAGES

from benchmarks.replay.setup import (  # noqa: E402
    SYSTEM,
    TIMINGS,
    USUAL_BUDGET,
    Setup,
    context_of,
)
from benchmarks.replay.simulate import Job, Result, prepared  # noqa: E402
from benchmarks.replay.workers import Workers  # noqa: E402
from benchmarks.simulator.cases import (  # noqa: E402
    BATCHES,
    CASES,
    CONTEXTS,
    PROMPTS,
    Case,
    table_name,
)

if TYPE_CHECKING:
    from benchmarks.replay.profiles import Milliseconds


def table(timing: str) -> dict[str, Any]:
    """Return the timing on a grid, in the form of the published estimates."""
    # In the simulator's environment from here on.
    from benchmarks.replay.profiles import timing_of  # noqa: PLC0415

    prefill_ms, step_ms = timing_of(TIMINGS[timing])
    return {
        "system": SYSTEM,
        "model": table_name(timing),
        "tp": 1,
        "prefill_ms": {str(tokens): round(prefill_ms(1, tokens), 4) for tokens in PROMPTS},
        "prefill_attention_ms_per_token2": float(f"{attention_ms(prefill_ms):.4g}"),
        "decode_itl_ms": {
            str(context): {str(batch): round(step_ms(batch, context), 4) for batch in BATCHES}
            for context in CONTEXTS
        },
    }


def attention_ms(prefill_ms: "Milliseconds") -> float:
    """Return the time of a prompt's attention to itself, per its tokens squared.

    Several prompts in a pass cost less than one of their joint length, as they do not attend to
    each other.
    """
    return median(
        (prefill_ms(1, together) - prefill_ms(batch, together // batch))
        / (together**2 - together**2 / batch)
        for batch in (2, 4, 8, 16)
        for together in (2048, 4096, 8192)
    )


def noted(result: Result) -> dict[str, Any]:
    """Return the figures of a replay that are kept."""
    kept: dict[str, Any] = {
        "requests": result.requests,
        "completed": result.completed,
        "good": result.good,
        "gpu_hours": result.gpu_s / 3600.0,
    }
    for name, seconds in (("ttft", result.ttft_s), ("tpot", result.tpot_s)):
        kept |= {f"{name}_{share}_ms": seconds[share] * 1000.0 for share in ("p50", "p95", "p99")}
    return kept


def replayed(case: Case, traces: Path, folder: Path) -> dict[str, Any]:
    """Return what the replay says of each fleet of a case."""
    recipe = case.recipe
    trace = recipe.make(traces)
    setup = Setup(
        timing=recipe.timing,
        ttft_s=recipe.ttft_s,
        itl_s=recipe.itl_s,
        startup_s=60.0,
        start=(1, 1),
        gpu_budget=USUAL_BUDGET,
        max_model_len=context_of(trace),
    )
    _, digest = prepared(trace, folder / "traces")
    jobs = [
        Job("static", case.name, digest, setup, {"fleet": list(fleet)}) for fleet in case.fleets
    ]
    with Workers(1) as workers:
        results = workers.run_all(jobs, trace, folder)
    return {
        f"{case.name} {p}P{d}D": noted(result)
        for (p, d), result in zip(case.fleets, results, strict=True)
    }


def main() -> None:
    """Run the chosen cases and add them to the notes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with Mooncake's trace")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--tables-only", action="store_true", help="sample the timing, run nothing")
    parser.add_argument("--out", type=Path, default=HERE / "nvidia.json")
    options = parser.parse_args()
    environment.enter()
    folder = environment.cache_directory() / "replay"
    found = json.loads(options.out.read_text()) if options.out.exists() else {"runs": {}}
    found["tables"] = [table(timing) for timing in TIMINGS]
    for case in () if options.tables_only else CASES:
        if not options.case or case.name in options.case:
            found["runs"] |= replayed(case, options.traces, folder)
    options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
