"""What both simulators run: traces, engines, static fleets. Needs nothing but this repository."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tandem_operator.sim.generate import Lengths, Mix, burst, poisson, sine
from tandem_operator.sim.readers import TraceFormat, read_trace
from tandem_operator.sim.trace import Trace, TraceRequest, spread

MODEL = "meta-llama/Meta-Llama-3.1-8B"
SYSTEM = "h200_sxm"
KV_BLOCK_TOKENS = 64
KV_BLOCKS = 14_000
MAX_NUM_SEQS = 256
MAX_NUM_BATCHED_TOKENS = 8192
# Where the replay's own timing is sampled: between these points ours draws straight lines.
PROMPTS = (64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, *range(8192, 131_073, 4096))
CONTEXTS = (128, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768, 65536, 131072)
BATCHES = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    12,
    14,
    16,
    18,
    20,
    24,
    28,
    32,
    40,
    48,
    56,
    64,
    80,
    96,
    112,
    128,
    160,
    192,
    256,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One trace on one kind of engine, with the fleets to compare."""

    name: str
    timing: str
    ttft_s: float
    tpot_s: float
    max_model_len: int
    fleets: tuple[tuple[int, int], ...]


CASES = (
    Case("A", "bf16", 0.5, 0.02, 32_768, ((4, 3), (5, 3), (6, 4))),
    Case("A4", "bf16", 0.5, 0.02, 32_768, ((4, 2), (5, 3))),
    Case("mooncake", "fp8", 1.5, 0.05, 131_072, ((4, 1), (5, 1), (6, 2), (12, 4))),
)


def trace_of(case: Case, mooncake: Path) -> Trace:
    """The case's trace, its clock in whole milliseconds as the replay reads it."""
    if case.name == "mooncake":
        lines = mooncake.read_text().splitlines()
        read = read_trace(lines, source=mooncake.name, form=TraceFormat.MOONCAKE)
        # Its clock ticks every three seconds; requests did not come in clumps of ten.
        return _in_whole_ms(spread(read, 3.0, seed=3))
    wave = sine(6.0, 40.0, period_s=600.0)
    rate = burst(wave, factor=1.8, begin_s=780.0, end_s=840.0) if case.name == "A" else wave
    mix = Mix(Lengths(2500, 0.6, 64, 16_000), Lengths(250, 0.5, 8, 1200))
    seed = {"A": 7, "A4": 13}[case.name]
    return _in_whole_ms(poisson(case.name, rate, most_rps=80.0, span_s=1200.0, mix=mix, seed=seed))


def _in_whole_ms(trace: Trace) -> Trace:
    requests = (replace(r, at_s=int(r.at_s * 1000.0) / 1000.0) for r in trace.requests)
    return replace(trace, requests=tuple(requests))


def replay_lines(trace: Trace) -> Iterator[str]:
    """The trace as NVIDIA's replay reads it; requests without blocks get some of their own."""
    used = 1 + max((block for r in trace.requests for block in r.blocks), default=0)
    for request in trace.requests:
        count = -(-request.prompt_tokens // trace.block_tokens)
        blocks = request.blocks or tuple(range(used, used + count))
        used += 0 if request.blocks else count
        yield json.dumps(_row(request, blocks)) + "\n"


def _row(request: TraceRequest, blocks: tuple[int, ...]) -> dict[str, object]:
    return {
        "timestamp": round(request.at_s * 1000.0),
        "input_length": request.prompt_tokens,
        "output_length": request.output_tokens,
        "hash_ids": list(blocks),
    }
