"""The engine's measured cost after its warm-up: the operator's first guess.

Two prompt lengths and two batch sizes are the minimum. They separate the cost of a request or a
step from the cost of each token or stream. Each is measured again if there is time, and the quicker
result counts: a starting pod shares its node with other starting pods.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tandem_engine.serve.engine_settings import EngineSettings, Role
from tandem_engine.serve.vllm_api import VllmApi
from tandem_engine.serve.warm_up import complete, random_prompt

_SHORT_TOKENS, _LONG_TOKENS = 32, 1024
_STEPS = 16
# Two blocks of the largest size: a batch beyond the cache would run in waves.
_STREAM_TOKENS = 256
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
    """The costs of the engine's own role, and the counts that they add to vLLM's counters."""

    prefill: tuple[PrefillTime, ...]
    decode_steps: tuple[StepTime, ...]
    requests: int
    prompt_tokens: int


@dataclass(slots=True)
class _Bench:
    """A timer of completions of fresh prompts; it keeps the least time of each kind."""

    settings: EngineSettings
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
    settings: EngineSettings,
    api: VllmApi,
    *,
    max_model_len: int | None,
    kv_capacity_tokens: int | None,
    draw: random.Random,
) -> Measured:
    """Measure the engine's own role: once in any time, and again within `_BUDGET_S`.

    Raises:
        CompletionError: vLLM refused a completion.
        aiohttp.ClientError, TimeoutError, OSError: it did not answer.
    """
    ends_s = time.monotonic() + _BUDGET_S
    bench = _Bench(settings, api, draw)
    longest = max(1, (max_model_len or 2 * _LONG_TOKENS) // 2)
    if settings.role is Role.PREFILL:
        prefill = await _prefill(bench, longest, ends_s)
        return Measured(prefill, (), bench.requests, bench.prompt_tokens)
    fitting = max(
        1, (kv_capacity_tokens or settings.max_num_seqs * _STREAM_TOKENS) // _STREAM_TOKENS
    )
    batches = sorted({1, min(settings.max_num_seqs, fitting)})
    steps = await _decode(bench, batches, min(_STEPS, longest), ends_s)
    return Measured((), steps, bench.requests, bench.prompt_tokens)


async def _prefill(bench: _Bench, longest: int, ends_s: float) -> tuple[PrefillTime, ...]:
    short = min(_SHORT_TOKENS, longest)
    wished = min(_LONG_TOKENS, longest)
    affordable = int(short * _BUDGET_S / await bench.take(tokens=short))
    if affordable < wished:
        # Slow, or without its processor for a moment: only a slow one is slow twice.
        affordable = int(short * _BUDGET_S / await bench.take(tokens=short))
    # Shorter prompts are enough to measure a slow processor: this must not take minutes.
    sizes = (short, min(wished, max(2 * short, affordable)))
    for _ in range(_TAKES):
        times_s = [await bench.take(tokens=tokens) for tokens in sizes]
        if time.monotonic() >= ends_s:
            break
    return tuple(
        PrefillTime(tokens, round(time_s, 6)) for tokens, time_s in zip(sizes, times_s, strict=True)
    )


async def _decode(
    bench: _Bench, batches: Sequence[int], most_steps: int, ends_s: float
) -> tuple[StepTime, ...]:
    steps: dict[int, int] = {}
    for _ in range(_TAKES):
        times = []
        for batch in batches:
            first_s = await bench.take(tokens=1, batch=batch)
            count = steps.setdefault(batch, max(1, min(most_steps, int(_BUDGET_S / first_s))))
            gained_s = await bench.take(tokens=1, batch=batch, steps=count) - first_s
            step_s = round(gained_s / count, 6)
            # The additional time of a longer answer over one of a single token; by chance it is
            # negative.
            if step_s > 0.0:
                times.append(StepTime(batch, step_s))
        if time.monotonic() >= ends_s:
            break
    return tuple(times)
