"""Our simulator and NVIDIA's side by side: `python -m benchmarks.simulator --traces FOLDER`."""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.replay.setup import KV_BLOCK_TOKENS, MAX_NUM_SEQS, SYSTEM, TIMINGS, context_of
from benchmarks.simulator.cases import CASES, Case, table_name
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.engines.profile_files import read_profile
from tandem_operator.sim.policy import Static
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.routing.router_queue import Order, QueueSettings, Spread
from tandem_operator.sim.simulate import simulate

HERE = Path(__file__).resolve().parent
# The replay sends each request round robin at once: all queues stand at the engines.
REPLAY_ROUTER = QueueSettings(
    Order.FIFO,
    Spread.ROUND_ROBIN,
    requests_per_prefill_pod=None,
    overflow=False,
    decode_gate=False,
)
HELD_ATTAINMENT = 0.9
MOST_LATENCY_ERROR = 0.05
MOST_ATTAINMENT_ERROR = 0.02
COMPARED = ("ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95")


def profile_of(case: Case, noted: Path) -> EngineProfile:
    """Return the replay's own timing: KV moves in no time, and a pass costs its mean."""
    timing = TIMINGS[case.recipe.timing]
    table = f"{SYSTEM}/{table_name(case.recipe.timing)}/tp1"
    profile = read_profile(noted.read_text(), source=noted.name, table=table)
    return replace(
        profile,
        kv_capacity_tokens=timing.kv_blocks * KV_BLOCK_TOKENS,
        max_num_seqs=MAX_NUM_SEQS,
        max_num_batched_tokens=timing.most_batched_tokens,
        transfer_s=0.0,
        transfer_s_per_token=0.0,
        attention_by_mean=True,
    )


def run(setup: PoolSetup, fleet: tuple[int, int]) -> PoolReport:
    """Return one fleet in our simulator."""
    replicas = {Role.PREFILL: fleet[0], Role.DECODE: fleet[1]}
    return simulate(replace(setup, start=replicas), Static(replicas))


def setup_of(case: Case, options: argparse.Namespace) -> PoolSetup:
    """Return the pool of a case; its fleet is filled in later."""
    trace = case.recipe.make(options.traces)
    spec = PoolSpec(
        slo=Slo(case.recipe.ttft_s, 0.0, case.recipe.itl_s, 0.95),
        roles={role: RoleSpec(1, 64, 1, True) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=None,
        stabilization_s=60.0,
        max_step=None,
        max_model_len=context_of(trace),
        max_num_seqs=MAX_NUM_SEQS,
    )
    return PoolSetup(
        name=case.name,
        spec=spec,
        trace=trace,
        profile=profile_of(case, options.noted),
        start={},
        router=REPLAY_ROUTER,
    )


def compare(report: PoolReport, theirs: dict[str, Any]) -> dict[str, Any]:
    """Return both sides, the relative errors of latencies and the difference of attainment."""
    ours = report.to_json()
    row: dict[str, Any] = {
        "attainment": (report.attainment, theirs["good"] / theirs["requests"]),
        "gpu_hours": (report.gpu_hours, theirs["gpu_hours"]),
        **{name: (ours[f"{name}_s"] * 1000.0, theirs[f"{name}_ms"]) for name in COMPARED},
    }
    held = row["attainment"][1] >= HELD_ATTAINMENT
    near = all(abs(mine / other - 1.0) <= MOST_LATENCY_ERROR for mine, other in _of(row, COMPARED))
    apart = abs(row["attainment"][0] - row["attainment"][1])
    row["verdict"] = (
        ("within" if near and apart <= MOST_ATTAINMENT_ERROR else "OUTSIDE") if held else "reported"
    )
    return row


def _of(row: dict[str, Any], names: tuple[str, ...]) -> list[tuple[float, float]]:
    return [row[name] for name in names]


def main() -> None:
    """Print the table; write it as JSON too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with Mooncake's trace")
    parser.add_argument("--noted", type=Path, default=HERE / "nvidia.json")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs = json.loads(options.noted.read_text())["runs"]
    rows: dict[str, Any] = {}
    names = ("attainment", *COMPARED)
    print(f"{'ours / NVIDIA replay':22}" + "".join(f"{name:>19}" for name in names))
    for case in CASES:
        if options.case and case.name not in options.case:
            continue
        setup = setup_of(case, options)
        for fleet in case.fleets:
            name = f"{case.name} {fleet[0]}P{fleet[1]}D"
            if name not in runs:
                continue
            began_s = time.process_time()
            row = rows[name] = compare(run(setup, fleet), runs[name])
            row["cpu_s"] = time.process_time() - began_s
            cells = [f"{ours:9.3f} /{theirs:8.3f}" for ours, theirs in _of(row, names)]
            print(f"{name:22}" + "".join(cells) + f"  {row['verdict']}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
