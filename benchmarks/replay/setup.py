"""The simulated setup: engines, their timing, the SLO, the start-up time, the fleet at the start.

Every policy meets the same setup. Only the clairvoyant and NVIDIA's planner are told the timing;
Tandem measures it.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tandem_operator.sim.traces.trace import Trace

MODEL = "meta-llama/Meta-Llama-3.1-8B"
SYSTEM = "h200_sxm"
KV_BLOCK_TOKENS = 64
MAX_NUM_SEQS = 256
USUAL_CONTEXT, LONG_CONTEXT = 32_768, 131_072
START_LOAD = 0.7
START_WINDOW_S = 60.0
LEAST_START = (2, 1)
USUAL_BUDGET = 24

Coefficients = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """The speed of engines, and the size of their caches."""

    quantization: str | None
    measured: bool
    kv_blocks: int
    most_batched_tokens: int
    prompt_grid: tuple[int, ...]
    context_grid: tuple[int, ...]
    batch_grid: tuple[int, ...]


TIMINGS = {
    "bf16": Timing(
        quantization=None,
        measured=False,
        kv_blocks=14_000,
        most_batched_tokens=8192,
        prompt_grid=(256, 512, 1024, 2048, 3000, 4096, 8192),
        context_grid=(1000, 2000, 3000, 4000),
        batch_grid=(16, 32, 64, 96, 128, 160),
    ),
    "fp8": Timing(
        quantization="fp8",
        measured=False,
        kv_blocks=14_000,
        most_batched_tokens=8192,
        prompt_grid=(512, 2048, 4096, 8192, 16384, 32768),
        context_grid=(4000, 8000, 12000, 20000),
        batch_grid=(4, 8, 16, 32, 48, 64),
    ),
    "measured": Timing(
        quantization="fp8",
        measured=True,
        kv_blocks=14_766,
        most_batched_tokens=16_384,
        prompt_grid=(512, 1024, 2048, 3000, 4096, 6144),
        context_grid=(1000, 2000, 3000, 4000),
        batch_grid=(4, 8, 16, 32, 48, 64, 96),
    ),
}


@dataclass(frozen=True, slots=True)
class Setup:
    """One simulated cluster and its SLO, the same for every policy."""

    timing: str
    ttft_s: float
    itl_s: float
    startup_s: float
    start: tuple[int, int]
    gpu_budget: int
    max_model_len: int

    @property
    def key(self) -> str:
        """Return a stable description, for the cache."""
        return json.dumps(asdict(self), sort_keys=True)

    def with_budget(self, gpus: int) -> "Setup":
        """Return the same cluster with room for `gpus` GPUs."""
        return replace(self, gpu_budget=gpus)

    @property
    def kv_capacity_tokens(self) -> int:
        """Return the tokens that one engine's KV cache holds."""
        return TIMINGS[self.timing].kv_blocks * KV_BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Profile:
    """S(u) = a0 + a1 u + a2 u^2 and ITL(b, K) = d0 + d1 b + d2 K, in seconds."""

    service: Coefficients
    step: Coefficients

    def service_s(self, prompt_tokens: float) -> float:
        """Return the prefill time of one prompt."""
        a0, a1, a2 = self.service
        return a0 + a1 * prompt_tokens + a2 * prompt_tokens * prompt_tokens

    def tokens_per_s(self, *, context_tokens: float, itl_s: float) -> float:
        """Return the tokens per second of one decode engine whose steps take `itl_s`."""
        d0, d1, d2 = self.step
        return (itl_s - d0) / (d1 + d2 * context_tokens) / itl_s


def fitted_start(trace: Trace, profile: Profile, itl_s: float) -> tuple[int, int]:
    """Return the fleet that carries the first minute of `trace` at a fair load."""
    first = [r for r in trace.requests if r.at_s < START_WINDOW_S]
    context = sum(r.prompt_tokens + r.output_tokens / 2 for r in first) / len(first)
    tokens_per_s = profile.tokens_per_s(context_tokens=context, itl_s=itl_s)
    busy = sum(profile.service_s(r.prompt_tokens) for r in first) / START_WINDOW_S
    full = sum(r.output_tokens for r in first) / START_WINDOW_S / tokens_per_s
    counts = (-int(-load // START_LOAD) for load in (busy, full))
    prefill, decode = (max(low, n) for low, n in zip(LEAST_START, counts, strict=True))
    return prefill, decode


def context_of(trace: Trace) -> int:
    """Return the engines' context length: the usual one, or what the longest request needs."""
    longest = max(r.prompt_tokens + r.output_tokens for r in trace.requests)
    return USUAL_CONTEXT if longest <= USUAL_CONTEXT else LONG_CONTEXT


def estimator(timing: Timing, role: str) -> dict[str, Any]:
    """Return the question to NVIDIA's estimator."""
    config: dict[str, Any] = {
        "model": MODEL,
        "backend": "vllm",
        "system": SYSTEM,
        "worker_type": role,
        "tp": 1,
    }
    if timing.quantization is not None:
        config["gemm_quant_mode"] = timing.quantization
        config["kvcache_quant_mode"] = "bfloat16"
    return config


def engine_args(setup: Setup, role: str, *, measured: Path) -> dict[str, Any]:
    """Return the simulator's description of one role's engines; `measured` is the H200 table."""
    timing = TIMINGS[setup.timing]
    model: dict[str, Any] = {"type": "external"}
    if timing.measured:
        model |= {"provider": "dynamo_profile", "config": {"path": str(measured)}}
    else:
        model |= {"provider": "ais", "config": estimator(timing, role)}
    engine: dict[str, Any] = {
        "backend": "vllm",
        "worker_type": role,
        "num_gpu_blocks": timing.kv_blocks,
        "block_size": KV_BLOCK_TOKENS,
        "max_num_seqs": MAX_NUM_SEQS,
        "max_num_batched_tokens": timing.most_batched_tokens,
        "max_model_len": setup.max_model_len,
        "timing_model": model,
    }
    return {"engine": engine, "startup_time": setup.startup_s}
