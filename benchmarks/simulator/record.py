"""Run the fleets in NVIDIA's replay and note what came of it: `PYTHON record.py --mooncake FILE`.

PYTHON is one that has the simulator (`benchmarks/replay` makes such an environment). The answer,
`nvidia.json` beside this file, also holds the timing that the replay used, sampled on a grid.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "operator")]
os.environ.setdefault("DYN_LOG", "error")

from dynamo._core import run_mocker_trace_replay  # noqa: E402
from dynamo._internal.ais import create_session  # noqa: E402

from benchmarks.simulator.cases import (  # noqa: E402
    BATCHES,
    CASES,
    CONTEXTS,
    KV_BLOCK_TOKENS,
    KV_BLOCKS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    MODEL,
    PROMPTS,
    SYSTEM,
    Case,
    replay_lines,
    trace_of,
)

KEPT = {
    "requests": "num_requests",
    "completed": "completed_requests",
    "good": "goodput_completed_requests",
    "gpu_hours": "gpu_hours",
    "ttft_p50_ms": "median_ttft_ms",
    "ttft_p95_ms": "p95_ttft_ms",
    "ttft_p99_ms": "p99_ttft_ms",
    "tpot_p50_ms": "median_tpot_ms",
    "tpot_p95_ms": "p95_tpot_ms",
    "tpot_p99_ms": "p99_tpot_ms",
    "prefix_hit_share": "prefix_cache_reused_ratio",
}


def estimator(timing: str, role: str) -> dict[str, Any]:
    """What the timing model is asked for."""
    config: dict[str, Any] = {
        "model": MODEL,
        "backend": "vllm",
        "system": SYSTEM,
        "worker_type": role,
        "tp": 1,
    }
    if timing == "fp8":
        config |= {"gemm_quant_mode": "fp8", "kvcache_quant_mode": "bfloat16"}
    return config


def table(timing: str) -> dict[str, Any]:
    """The timing on a grid, in the form of the published estimates."""
    prefill, decode = (
        create_session(config=estimator(timing, role)) for role in ("prefill", "decode")
    )
    return {
        "system": SYSTEM,
        "model": f"{MODEL}-{timing}",
        "tp": 1,
        "prefill_ms": {
            str(tokens): round(prefill.predict_prefill(1, tokens, 0), 4) for tokens in PROMPTS
        },
        "decode_itl_ms": {
            str(context): {
                str(batch): round(decode.predict_decode(batch, context, 2), 4) for batch in BATCHES
            }
            for context in CONTEXTS
        },
    }


def engine(case: Case, role: str) -> dict[str, Any]:
    """One role's engines, as the replay is told of them."""
    timing = {"type": "external", "provider": "ais", "config": estimator(case.timing, role)}
    return {
        "engine": {
            "backend": "vllm",
            "worker_type": role,
            "num_gpu_blocks": KV_BLOCKS,
            "block_size": KV_BLOCK_TOKENS,
            "max_num_seqs": MAX_NUM_SEQS,
            "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
            "max_model_len": case.max_model_len,
            "timing_model": timing,
        },
        "startup_time": 60.0,
    }


def run(case: Case, trace: Path, fleet: tuple[int, int]) -> dict[str, Any]:
    """One fleet's numbers."""
    result = run_mocker_trace_replay(
        [str(trace)],
        prefill_engine_args=engine(case, "prefill"),
        decode_engine_args=engine(case, "decode"),
        num_prefill_workers=fleet[0],
        num_decode_workers=fleet[1],
        trace_block_size=512,
        sla_ttft_ms=case.ttft_s * 1000.0,
        sla_itl_ms=case.tpot_s * 1000.0,
    )
    summary = dict(result.summary)
    return {name: summary[key] for name, key in KEPT.items()}


def main() -> None:
    """Run what is asked for and add it to what is noted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mooncake", type=Path, required=True, help="conversation_trace.jsonl")
    parser.add_argument("--case", choices=[case.name for case in CASES], action="append")
    parser.add_argument("--tables-only", action="store_true", help="sample the timing, run nothing")
    parser.add_argument("--out", type=Path, default=HERE / "nvidia.json")
    options = parser.parse_args()
    noted = json.loads(options.out.read_text()) if options.out.exists() else {"runs": {}}
    noted["tables"] = [table(timing) for timing in ("bf16", "fp8")]
    options.out.write_text(json.dumps(noted, indent=1) + "\n")
    for case in () if options.tables_only else CASES:
        if options.case and case.name not in options.case:
            continue
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(replay_lines(trace_of(case, options.mooncake))))
            for fleet in case.fleets:
                name = f"{case.name} {fleet[0]}P{fleet[1]}D"
                noted["runs"][name] = run(case, trace, fleet)
                print(name, noted["runs"][name], flush=True)
                options.out.write_text(json.dumps(noted, indent=1) + "\n")


if __name__ == "__main__":
    main()
