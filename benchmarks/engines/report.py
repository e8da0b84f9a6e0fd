"""`python -m benchmarks.engines.report`: real engines beside what Tandem expects of them.

First guesses of the decision core against the measured tables, the simulator against the traffic
that was sent, and a profile for `tandem simulate --profile`.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.load.plan import Lengths, Traffic, plan_requests
from benchmarks.priors.__main__ import GUESSES, errors, guesses
from benchmarks.simulator.__main__ import REPLAY_ROUTER, run
from tandem_operator.core.learn.shipped_profiles import profiled
from tandem_operator.core.observation import Hardware, ModelShape, StartUp
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.engines.profile_files import read_profile
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.traces.trace import Trace, TraceRequest

# One engine of the role that is looked at, and enough of the other not to matter.
FLEETS = {"prefill": (1, 8), "decode": (8, 1)}
LOADS = {"prefill": "ttft", "decode": "tpot"}


def profile_file(found: Mapping[str, Any], *, kv_tokens: int, source: str) -> dict[str, Any]:
    """Return the measured tables in the form that `tandem simulate --profile` reads."""
    steps = found["steps"]
    return {
        "source": source,
        "kv_bytes_per_token": found["prefill_info"]["shape"]["kv_bytes_per_token"],
        "prefill": {
            "prefill_isl": [each["prompt_tokens"] for each in found["prefill"]],
            "prefill_ttft": [round(each["seconds"] * 1e3, 3) for each in found["prefill"]],
        },
        "decode": {
            "x_kv_usage": [round(s["batch"] * s["context_tokens"] / kv_tokens, 6) for s in steps],
            "y_context_length": [each["context_tokens"] for each in steps],
            "z_itl": [round(each["seconds"] * 1e3, 3) for each in steps],
            "max_kv_tokens": [kv_tokens],
        },
    }


def engine_profile(found: Mapping[str, Any]) -> EngineProfile:
    """Return the engines that were measured; a transfer costs nothing."""
    tables = profile_file(found, kv_tokens=found["decode_info"]["kv_capacity_tokens"], source="")
    profile = read_profile(json.dumps(tables), source=found["model"])
    return replace(profile, transfer_s=0.0, transfer_s_per_token=0.0)


def start_up_of(found: Mapping[str, Any]) -> StartUp:
    """Return the reports of both engines on themselves once they were Ready."""
    prefill, decode = found["prefill_info"], found["decode_info"]
    return StartUp(
        prefill=tuple((e["prompt_tokens"], e["seconds"]) for e in prefill["measured"]["prefill"]),
        steps=tuple((e["batch"], e["seconds"]) for e in decode["measured"]["decode_steps"]),
        shape=ModelShape(**prefill["shape"]),
        hardware=Hardware(device=prefill["device"], devices=prefill["devices"]),
    )


def guessed(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the distance of each kind of first guess from the tables."""
    start_up = start_up_of(found)
    assert start_up.shape is not None
    assert start_up.hardware is not None
    prior = profiled(start_up.shape, start_up.hardware)
    profile = engine_profile(found)
    yield f"| {' | '.join(GUESSES)} |"
    yield "|---" * len(GUESSES) + "|"
    cells = [
        "{:+.0%} / {:+.0%}".format(*errors(profile, models)) for models in guesses(start_up, prior)
    ]
    yield f"| {' | '.join(cells)} |"


def traffic_of(row: Mapping[str, Any]) -> Traffic:
    """Return the traffic behind a row of figures."""
    lengths = {name: Lengths(**row[name]) for name in ("prompt_tokens", "output_tokens")}
    return Traffic(row["name"], row["rate_rps"], row["duration_s"], **lengths)


def simulated(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the same requests in the simulator, on the measured tables: ours / measured, in ms."""
    profile = engine_profile(found)
    yield "| traffic | requests | p50 | p95 |"
    yield "|---|---|---|---|"
    for name, row in found.items():
        role, _, _ = name.partition("-")
        if not isinstance(row, Mapping) or "rate_rps" not in row or role not in LOADS:
            continue
        report = run(_setup(traffic_of(row), profile), FLEETS[role]).to_json()
        what = LOADS[role]
        cells = [
            f"{report[f'{what}_{q}_s'] * 1e3:.1f} / {row[f'{what}_{q}_s'] * 1e3:.1f}"
            f" ({report[f'{what}_{q}_s'] / row[f'{what}_{q}_s'] - 1:+.0%})"
            for q in ("p50", "p95")
        ]
        traffic = f"{name}, {row['rate_rps']:.1f}/s: {what.upper()}"
        yield f"| {traffic} | {row['requests']} | {' | '.join(cells)} |"


def overloaded(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield an overload of streams against a TPOT bound: all let in, and with the gate."""
    bound_ms = found["overload"]["slo"]["tpot_s"] * 1e3
    yield f"| router | good | TPOT p50, p95 (bound {bound_ms:.1f}), ms | TTFT p50, p95, s |"
    yield "|---|---|---|---|"
    for name in ("unlimited", "gate"):
        row = found[f"overload-{name}"]
        tpots = ", ".join(f"{row[f'tpot_{q}_s'] * 1e3:.1f}" for q in ("p50", "p95"))
        ttfts = ", ".join(f"{row[f'ttft_{q}_s']:.2f}" for q in ("p50", "p95"))
        good = f"{row['good']} of {row['requests']} ({row['good'] / row['requests']:.0%})"
        yield f"| {name} | {good} | {tpots} | {ttfts} |"


def stalled(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the streams beside prompts that their decode engine computes: expected / measured.

    Expected of streams: their TPOT without such prompts, over the share of time that these leave.
    Expected of prompts: their time alone at a prefill engine.
    """
    profile = engine_profile(found)
    yield "| share | prompts | streams: TPOT p50, ms | prompts: TTFT p50, ms |"
    yield "|---|---|---|---|"
    for name, row in found.items():
        if not name.startswith("whole-") or not row["requests"]:
            continue
        traffic = traffic_of(row)
        alone_s = [
            profile.prefill.at(len(one.prompt_token_ids)) for one in plan_requests(traffic, seed=1)
        ]
        share = sum(alone_s) / traffic.duration_s
        tpot_s = found["streams-0"]["tpot_p50_s"] / (1.0 - share)
        beside = found[name.replace("whole", "streams")]
        cells = [
            f"{expected * 1e3:.1f} / {measured * 1e3:.1f} ({expected / measured - 1:+.0%})"
            for expected, measured in (
                (tpot_s, beside["tpot_p50_s"]),
                (statistics.median(alone_s), row["ttft_p50_s"]),
            )
        ]
        yield f"| {share:.2f} | {row['requests']} | {' | '.join(cells)} |"


def _setup(traffic: Traffic, profile: EngineProfile) -> PoolSetup:
    requests = tuple(
        TraceRequest(one.at_s, len(one.prompt_token_ids), one.output_tokens)
        for one in plan_requests(traffic, seed=1)
    )
    spec = PoolSpec(
        slo=Slo(1.0, 0.0, 0.1, 0.95),
        roles={role: RoleSpec(1, 8, 1, False) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=None,
        stabilization_s=60.0,
        max_step=None,
        max_model_len=profile.kv_capacity_tokens,
        max_num_seqs=profile.max_num_seqs,
    )
    trace = Trace(traffic.name, requests)
    return PoolSetup(traffic.name, spec, trace, profile, start={}, router=REPLAY_ROUTER)


def main(arguments: Sequence[str]) -> int:
    """Print the tables; write the profile where asked to."""
    lines = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines.report", description=lines)
    parser.add_argument(
        "measured", type=Path, help="measured.json of `python -m benchmarks.engines`"
    )
    parser.add_argument("--profile", type=Path, help="write the tables to this file")
    parser.add_argument("--kv-tokens", type=int, help="KV cache of a replica in that file")
    options = parser.parse_args(arguments)
    found = json.loads(options.measured.read_text())
    print("Mean error of prefill seconds / of decode step seconds, + is too slow:\n")
    print("\n".join(guessed(found)))
    print("\nSimulator / measured, ms:\n")
    print("\n".join(simulated(found)))
    if "overload-gate" in found:
        print("\nToo many streams for a TPOT bound:\n")
        print("\n".join(overloaded(found)))
    if "streams-0" in found:
        print("\nStreams and prompts at one decode engine, expected / measured:\n")
        print("\n".join(stalled(found)))
    if options.profile is not None:
        info = found["decode_info"]
        source = (
            f"python -m benchmarks.engines: {found['model']}, vLLM {info['vllm_version']}, "
            f"{info['devices']} x {info['device']}, measured"
        )
        kv_tokens = options.kv_tokens or info["kv_capacity_tokens"]
        tables = profile_file(found, kv_tokens=kv_tokens, source=source)
        options.profile.write_text(json.dumps(tables, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
