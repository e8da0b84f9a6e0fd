"""Both ends of the benchmark: the Go program in `load/`, built once, each end on given cores."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.router.cores import on_cores
from e2e.cluster import gobuild

_SOURCE = Path(__file__).parent / "load"
_MARGIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a run.

    Attributes:
        streams: how many are open at any time.
        tokens, gap_s: length and pace of each stream; without a gap, as fast as can be.
        ramp_s: streams start evenly over this time; nothing before its end is counted.
        window_s: how long is counted.
    """

    streams: int
    tokens: int
    gap_s: float
    ramp_s: float
    window_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """The answers inside the window, and the CPU time that the measured process used in it."""

    ttft_s: list[float]
    tokens: int
    cpu_s: float
    failed: int
    first_failed: str = ""


def build() -> Path:
    """Return the program, built if its source changed."""
    group = gobuild.Group("router-load", str(_SOURCE), {"load": "."})
    return gobuild.build(group) / "load"


def run(
    load: Load, *, program: Path, cores: set[int], pid: int, port: int, prefill_port: int | None
) -> Result:
    """Run a load against a port, reading the CPU time of `pid`, and return what the window saw."""
    options: dict[str, object] = {
        "pid": pid,
        "port": port,
        "prefill-port": prefill_port or "",
        "streams": load.streams,
        "tokens": load.tokens,
        "gap": f"{load.gap_s}s",
        "ramp": f"{load.ramp_s}s",
        "window": f"{load.window_s}s",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    longest_s = load.ramp_s + load.window_s + load.tokens * load.gap_s + _MARGIN_S
    done = subprocess.run(
        on_cores(cores, [program, "generate", *words]),
        stdout=subprocess.PIPE,
        check=True,
        timeout=longest_s,
    )
    result = Result(**json.loads(done.stdout))
    if result.failed:
        print(f"{result.failed} failed, the first: {result.first_failed}", file=sys.stderr)
    return result


def without_pace(load: Load, *, window_s: float) -> Load:
    """Return the same streams as fast as they can be: what both ends manage alone."""
    return Load(**asdict(load) | {"gap_s": 0.0, "ramp_s": 1.0, "window_s": window_s})
