"""`python -m benchmarks.tick`: seconds per tick of one pool, and how large its memory is.

A pool with the live core runs in the simulator until the history that routers keep (20 minutes) is
full. Each tick is timed, and apart from it the trip of its memory through JSON that a live operator
makes. CPU time, so that what else runs on the machine hardly counts. Loads differ in what they
cost: many requests, jumps, a season, long prompts, dozens of pods.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem_operator.api import Router
from tandem_operator.core.decide import decide
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import straight_profile
from tandem_operator.sim.policy import PolicyAnswer
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.traces.generate import Lengths, Mix, Rate, burst, constant, poisson, sine
from tandem_operator.workloads.pool_spec import insurance_of
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json

BOUND_S = 0.020
HISTORY_S = 1200.0
ENGINE = straight_profile(
    "quick",
    prefill=(0.01, 4e-5),
    step=(0.008, 2e-4, 0.0),
    kv_capacity_tokens=400_000,
    max_num_seqs=128,
)
SPEC = PoolSpec(
    slo=Slo(ttft_s=0.8, ttft_s_per_thousand_prompt_tokens=0.1, tpot_s=0.02, attainment=0.95),
    roles={role: RoleSpec(1, 400, 1, True) for role in Role},
    mode=Mode.AUTO,
    gpu_budget=500,
    stabilization_s=10.0,
    max_step=None,
    max_model_len=32_768,
    max_num_seqs=128,
    insurance=insurance_of(Router()),
)
CHAT = Mix(Lengths(1500, 0.6, 16, 8000), Lengths(100, 0.4, 2, 400))
DOCUMENTS = Mix(Lengths(9000, 0.5, 16, 30_000), Lengths(20, 0.4, 2, 60))


@dataclass(frozen=True, slots=True)
class Load:
    """Requests over time, and the fleet they begin with."""

    rate: Rate
    most_rps: float
    mix: Mix
    start: tuple[int, int]


LOADS = {
    "quiet": Load(constant(0.5), 0.5, CHAT, (1, 1)),
    "wave with a burst": Load(
        burst(sine(6.0, 40.0, period_s=600.0), factor=1.8, begin_s=780.0, end_s=840.0),
        72.0,
        CHAT,
        (3, 3),
    ),
    "documents": Load(constant(8.0), 8.0, DOCUMENTS, (6, 2)),
    "large": Load(sine(150.0, 250.0, period_s=500.0), 250.0, CHAT, (18, 16)),
}


class Timed:
    """The live core behind the simulator's policy hook, with a stopwatch around each tick."""

    name = "tandem, timed"

    def __init__(self) -> None:
        self.memory = Memory()
        self.ticks_s: list[float] = []
        self.trips_s: list[float] = []
        self.memory_bytes = 0

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Run one tick of the core and time it."""
        # What the simulator holds is not the core's: it is not searched for garbage on its time.
        gc.freeze()
        begin_s = time.process_time()
        decision, memory = decide(spec, observation, self.memory, now_s)
        decided_s = time.process_time()
        gc.unfreeze()
        text = memory_to_json(memory)
        self.memory = memory_from_json(text)
        self.trips_s.append(time.process_time() - decided_s)
        self.ticks_s.append(decided_s - begin_s)
        self.memory_bytes = max(self.memory_bytes, len(text))
        replicas = {role: plan.to for role, plan in decision.roles.items()}
        return PolicyAnswer(replicas=replicas, next_tick_s=decision.next_tick_s)


def measure(load: Load, *, span_s: float, seed: int = 1) -> Timed:
    """Run one load and return it with the times of all ticks."""
    trace = poisson(
        "load", load.rate, most_rps=load.most_rps, span_s=span_s, mix=load.mix, seed=seed
    )
    start = dict(zip(Role, load.start, strict=True))
    timed = Timed()
    setup = PoolSetup(name="pool", spec=SPEC, trace=trace, profile=ENGINE, start=start)
    simulate(setup, timed, Scenario(pools=(), cold_start=ColdStart(60.0, 0.1), patience_s=60.0))
    return timed


def figures(timed: Timed) -> dict[str, float]:
    """Return the quantiles of a run in milliseconds."""
    ordered = sorted(timed.ticks_s)
    return {
        "ticks": len(ordered),
        "p50_ms": 1000.0 * _quantile(ordered, 0.5),
        "p99_ms": 1000.0 * _quantile(ordered, 0.99),
        "most_ms": 1000.0 * ordered[-1],
        "memory_p50_ms": 1000.0 * _quantile(sorted(timed.trips_s), 0.5),
        "memory_kib": timed.memory_bytes / 1024.0,
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main(argv: list[str] | None = None) -> int:
    """Print a table; exit with 1 if the median tick takes longer than it may."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tick",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--load", choices=sorted(LOADS), action="append", help="only this load")
    parser.add_argument(
        "--span-s", type=float, default=1.25 * HISTORY_S, help="seconds of load (default 1500)"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args(argv)
    if not options.span_s > 0.0:
        parser.error(f"--span-s must be greater than 0, such as 1500; got {options.span_s:g}")
    print(
        f"{'load':20}{'ticks':>7}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}"
        f"{'JSON ms':>9}{'memory KiB':>12}"
    )
    found: dict[str, Any] = {}
    for name in options.load or LOADS:
        row = found[name] = figures(measure(LOADS[name], span_s=options.span_s))
        print(
            f"{name:20}{row['ticks']:7.0f}{row['p50_ms']:9.1f}{row['p99_ms']:9.1f}"
            f"{row['most_ms']:9.1f}{row['memory_p50_ms']:9.1f}{row['memory_kib']:12.0f}",
            flush=True,
        )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if all(row["p50_ms"] <= 1000.0 * BOUND_S for row in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
