"""Replay one trace under one policy in NVIDIA's simulator, and write the figures as JSON.

Tandem's own decision core stands behind the simulator's scaling hook, beside NVIDIA's planner,
fixed fleets and a schedule that knows every arrival. The first call installs the simulator into the
user's cache, in an environment of its own.

    python3 benchmarks/replay/run.py --trace t.csv --format azure --policy tandem --json out.json
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Run as a file, this folder would come first and could hide modules of other packages.
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry) != HERE)]

from benchmarks.replay import environment  # noqa: E402

sys.path[1:1] = environment.PACKAGES

from benchmarks.replay.arena import arena_of  # noqa: E402
from benchmarks.replay.search import POLICIES, evaluate  # noqa: E402
from benchmarks.replay.setup import TIMINGS, USUAL_BUDGET  # noqa: E402
from benchmarks.replay.simulate import SHARES  # noqa: E402
from benchmarks.replay.traces import in_whole_ms, opened  # noqa: E402
from benchmarks.replay.workers import Workers  # noqa: E402
from tandem_operator.sim.traces.readers import TraceError, TraceFormat  # noqa: E402
from tandem_operator.sim.traces.trace import Trace  # noqa: E402

DEFAULT_SEED = 1
SERVEGEN_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet as it is written on the command line: 2P1D or 2,1."""

    prefill: int
    decode: int

    @staticmethod
    def parse(text: str) -> "Fleet":
        """Return the fleet that `text` names."""
        parts = text.upper().removesuffix("D").replace("P", ",").split(",")
        if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise argparse.ArgumentTypeError(f"{text!r} is no fleet; write for example 2P1D")
        return Fleet(int(parts[0]), int(parts[1]))


def positive(text: str) -> float:
    """Return a number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0, for example 2")
    return value


def counted(text: str) -> int:
    """Return a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number above 0, for example 2")
    return int(text)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    first, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trace", type=Path, required=True, metavar="FILE")
    parser.add_argument("--format", type=TraceFormat, choices=tuple(TraceFormat), required=True)
    parser.add_argument("--policy", required=True, choices=POLICIES)
    parser.add_argument("--json", type=Path, required=True, metavar="OUT")
    parser.add_argument("--rate-scale", type=positive, default=1.0, metavar="X")
    parser.add_argument("--ttft-ms", type=positive, default=500.0, metavar="N")
    parser.add_argument("--itl-ms", type=positive, default=20.0, metavar="N")
    parser.add_argument("--startup-s", type=positive, default=60.0, metavar="N")
    parser.add_argument(
        "--timing",
        choices=tuple(TIMINGS),
        default="bf16",
        help="engines: NVIDIA's estimates of Llama-3.1-8B on H200 in bf16 or fp8, or its measured"
        " fp8 table",
    )
    parser.add_argument(
        "--start", type=Fleet.parse, help="first fleet, default: fitted to the first minute"
    )
    parser.add_argument(
        "--gpu-budget",
        type=counted,
        help=f"most GPUs for a policy that decides, default: {USUAL_BUDGET}, more where the trace"
        " needs more",
    )
    parser.add_argument(
        "--hours",
        type=positive,
        help="of the trace, from its beginning; default: all, of a servegen trace 24",
    )
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument(
        "--jobs", type=counted, default=os.cpu_count() or 1, help="of a search, at once"
    )
    return parser.parse_args(arguments)


def _span_s(options: argparse.Namespace) -> float | None:
    hours = options.hours
    if hours is None and options.format is TraceFormat.SERVEGEN:
        hours = SERVEGEN_HOURS
    return None if hours is None else hours * 3600.0


def main(arguments: Sequence[str]) -> int:
    """Replay and report; return 2 for what cannot work."""
    options = parse(arguments)
    try:
        trace = in_whole_ms(
            opened(
                options.trace,
                options.format,
                rate_scale=options.rate_scale,
                seed=options.seed,
                span_s=_span_s(options),
            )
        )
        environment.enter()
    except (TraceError, environment.NoEnvironmentError) as error:
        print(error, file=sys.stderr)
        return 2
    record = replayed(trace, options)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(record, indent=2) + "\n")
    print(
        f"{record['policy']} on {record['trace']}: attainment {record['attainment']:.3f}, "
        f"{record['good_per_gpu_s']:.2f} good requests per GPU-second, "
        f"{record['gpu_hours']:.2f} GPU-hours"
    )
    return 0


def replayed(trace: Trace, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one policy on one trace."""
    # In the simulator's environment from here on.
    from benchmarks.replay.profiles import profile_of  # noqa: PLC0415

    profile = profile_of(options.timing)
    start = options.start
    with Workers(options.jobs) as workers:
        arena = arena_of(
            trace,
            profile,
            workers,
            timing=options.timing,
            ttft_s=options.ttft_ms / 1000.0,
            itl_s=options.itl_ms / 1000.0,
            startup_s=options.startup_s,
            start=(start.prefill, start.decode) if start else None,
            gpu_budget=options.gpu_budget,
        )
        found = evaluate(arena, options.policy, profile)
    setup = arena.setup
    result = found.result
    return {
        "policy": options.policy,
        "trace": trace.name,
        "seed": options.seed,
        "requests": result.requests,
        "completed": result.completed,
        "good": result.good,
        "attainment": result.attainment,
        "gpu_hours": result.gpu_s / 3600.0,
        "good_per_gpu_s": result.good_per_gpu_s,
        **{f"ttft_{share}_s": result.ttft_s[share] for share in SHARES},
        **{f"tpot_{share}_s": result.tpot_s[share] for share in SHARES},
        "prefill_mean": result.prefill_mean,
        "decode_mean": result.decode_mean,
        "changes": result.changes,
        "chosen": found.chosen,
        "tried": [
            {"what": what, "attainment": r.attainment, "good_per_gpu_s": r.good_per_gpu_s}
            for what, r in found.tried
        ],
        "ttft_ms": options.ttft_ms,
        "itl_ms": options.itl_ms,
        "startup_s": options.startup_s,
        "start": f"{setup.start[0]}P{setup.start[1]}D",
        "gpu_budget": setup.gpu_budget,
        "timing": options.timing,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
