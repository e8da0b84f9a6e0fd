"""What the engine costs, measured on itself once it is warm: the operator's first guess of it.

Two lengths of prompt and two sizes of batch are the least that tell what a request or a step costs
by itself from what each token or stream adds. Each is taken twice and the quicker counts: a pod
that starts shares its node with others that start.
"""

import random
import time
from dataclasses import dataclass, field

from tandem_engine.serve.settings import Role, Settings
from tandem_engine.serve.vllm_api import VllmApi
from tandem_engine.serve.warm_up import complete, random_prompt

_SHORT_TOKENS, _LONG_TOKENS = 32, 1024
_STEPS = 16
_TAKES = 2
_BUDGET_S = 5.0


@dataclass(frozen=True, slots=True)
class PrefillTime:
    """One prompt alone, from its request to its first token."""

    prompt_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepTime:
    """One decode step of `batch` streams that hold hardly any context."""

    batch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What the engine's own role costs, and what vLLM's counters hold because of it."""

    prefill: tuple[PrefillTime, ...]
    decode_steps: tuple[StepTime, ...]
    requests: int
    prompt_tokens: int


@dataclass(slots=True)
class _Bench:
    """Times completions of fresh prompts, and keeps the least of each kind."""

    settings: Settings
    api: VllmApi
    draw: random.Random
    requests: int = 0
    prompt_tokens: int = 0
    least_s: dict[tuple[int, int, int], float] = field(default_factory=dict)

    async def take(self, *, tokens: int, batch: int = 1, steps: int = 0) -> float:
        prompts = [random_prompt(tokens, self.draw) for _ in range(batch)]
        self.requests += batch
        self.prompt_tokens += batch * tokens
        taken_s = await complete(self.settings, self.api, prompts, max_tokens=1 + steps)
        key = (tokens, batch, steps)
        self.least_s[key] = min(taken_s, self.least_s.get(key, taken_s))
        return self.least_s[key]


async def measure(
    settings: Settings, api: VllmApi, *, max_model_len: int | None, draw: random.Random
) -> Measured:
    """Time the engine's own role: once however long it takes, again within `_BUDGET_S`.

    Raises:
        CompletionError: vLLM refused what it had answered in the warm-up.
    """
    ends_s = time.monotonic() + _BUDGET_S
    longest = max(1, (max_model_len or 2 * _LONG_TOKENS) // 2)
    bench = _Bench(settings, api, draw)
    time_role = _prefill if settings.role is Role.PREFILL else _decode
    for _ in range(_TAKES):
        prefill, steps = await time_role(bench, longest)
        if time.monotonic() >= ends_s:
            break
    return Measured(prefill, steps, bench.requests, bench.prompt_tokens)


Times = tuple[tuple[PrefillTime, ...], tuple[StepTime, ...]]


async def _prefill(bench: _Bench, longest: int) -> Times:
    short = min(_SHORT_TOKENS, longest)
    short_s = await bench.take(tokens=short)
    # A slow processor is told by shorter prompts as well: nobody should wait minutes for this.
    affordable = int(short * _BUDGET_S / short_s)
    long = min(_LONG_TOKENS, longest, max(2 * short, affordable))
    long_s = await bench.take(tokens=long)
    return (PrefillTime(short, round(short_s, 6)), PrefillTime(long, round(long_s, 6))), ()


async def _decode(bench: _Bench, longest: int) -> Times:
    times = []
    steps = min(_STEPS, longest)
    for batch in sorted({1, bench.settings.max_num_seqs}):
        first_s = await bench.take(tokens=1, batch=batch)
        gained_s = await bench.take(tokens=1, batch=batch, steps=steps) - first_s
        # What a longer answer takes more than one of a single token; by chance it may take less.
        if gained_s > 0.0:
            times.append(StepTime(batch, round(gained_s / steps, 6)))
    return (), tuple(times)
