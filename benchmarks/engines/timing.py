"""Time prefill and decode steps of one engine that does nothing else."""

import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.measure import PrefillTime
from tandem_engine.serve.vllm_api import VllmApi
from tandem_engine.serve.warm_up import complete, random_prompt

PROMPTS = (32, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (512, 1024, 2048, 4096, 8192, 16384)
FEW_STEPS, MANY_STEPS = 8, 40
TAKES = 5


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of `batch` streams that hold `context_tokens` each."""

    batch: int
    context_tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Times completions of one engine."""

    api: VllmApi
    settings: EngineSettings
    draw: random.Random

    def prompt(self, tokens: int) -> list[int]:
        """Return a prompt that no cache holds."""
        return random_prompt(tokens, self.draw)

    async def taken_s(self, prompts: list[list[int]], *, answer_tokens: int) -> float:
        """Return the seconds until all are answered that were asked together."""
        return await complete(self.settings, self.api, prompts, max_tokens=answer_tokens)


async def prefill_times(clock: Clock, *, longest: int) -> list[PrefillTime]:
    """Return single prompts of each length that the engine takes, the median of their takes."""
    found = []
    for tokens in (each for each in PROMPTS if each < longest):
        takes = [await clock.taken_s([clock.prompt(tokens)], answer_tokens=1) for _ in range(TAKES)]
        found.append(PrefillTime(tokens, round(statistics.median(takes), 6)))
    return found


async def step_times(
    clock: Clock, *, longest: int, kv_capacity_tokens: int, max_num_seqs: int
) -> list[Step]:
    """Return the seconds of decode steps, by batch and context, that fit the cache.

    Prompts are computed once and then come from the prefix cache, so that a long answer takes
    longer than a short one by its steps alone.
    """
    found = []
    for context in (each for each in CONTEXTS if each + MANY_STEPS < longest):
        batches = list(_fitting(context, kv_capacity_tokens, max_num_seqs))
        if not batches:
            continue
        prompts = [clock.prompt(context) for _ in range(batches[-1])]
        await clock.taken_s(prompts, answer_tokens=1)
        for batch in batches:
            few_s, many_s = [
                min([await clock.taken_s(prompts[:batch], answer_tokens=steps) for _ in range(3)])
                for steps in (FEW_STEPS, MANY_STEPS)
            ]
            middle = context + (FEW_STEPS + MANY_STEPS) // 2
            step_s = (many_s - few_s) / (MANY_STEPS - FEW_STEPS)
            found.append(Step(batch, middle, round(step_s, 6)))
    return found


def _fitting(context: int, kv_capacity_tokens: int, max_num_seqs: int) -> Iterator[int]:
    for batch in BATCHES:
        if batch <= max_num_seqs and batch * (context + 2 * MANY_STEPS) <= kv_capacity_tokens:
            yield batch
