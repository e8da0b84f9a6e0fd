"""Answers through a prefill and a decode engine beside those of one engine, and what moved."""

import random
from dataclasses import dataclass
from typing import Any

from benchmarks.engines.engine import REQUEST_S, Pair, new_id
from tandem_engine.serve import vllm_metrics
from tandem_engine.serve.warm_up import random_prompt

LENGTHS = (5, 31, 32, 33, 200, 777, 1900, 6000, 12000)
ANSWER_TOKENS = 24
PULLED = "external_kv_transfer"


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt and its answers on both ways.

    Attributes:
        pull_s: from the decode engine's request to its first token.
        same_tokens: tokens up to the first that differs, of `of_tokens`.
        logprob_error: largest difference in log probability of those tokens.
        tie: how much less likely the other token was, where the first differs.
    """

    prompt_tokens: int
    pulled_tokens: int
    pull_s: float
    same_tokens: int
    of_tokens: int
    logprob_error: float
    tie: float | None


async def answers(pair: Pair, *, model: str, longest: int) -> list[Answer]:
    """Compare prompts of all lengths that the engines take."""
    draw = random.Random(2)
    found = []
    for length in (each for each in LENGTHS if each + ANSWER_TOKENS < longest):
        body = {
            "model": model,
            "prompt": random_prompt(length, draw),
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
            "logprobs": 2,
        }
        before = await pair.decode.prompt_tokens(PULLED)
        _, pull_s = await pair.answer(body | {"max_tokens": 1})
        pulled = await pair.decode.prompt_tokens(PULLED) - before
        both, _ = await pair.answer(body)
        alone = await pair.prefill.api.complete(body, request_id=new_id(), timeout_s=REQUEST_S)
        found.append(
            Answer(length, int(pulled), round(pull_s, 5), *compared(both, alone["choices"][0]))
        )
    return found


async def moved(pair: Pair) -> dict[str, float]:
    """Return the transfers so far by NIXL's own clock."""
    samples = await pair.decode.api.samples()
    names = ("vllm:nixl_xfer_time_seconds", "vllm:nixl_bytes_transferred")
    return {
        f"{name.partition(':')[2]}_{part}": vllm_metrics.total(samples, f"{name}_{part}")
        for name in names
        for part in ("sum", "count")
    }


def compared(one: dict[str, Any], other: dict[str, Any]) -> tuple[int, int, float, float | None]:
    """Return the last four fields of an `Answer`, of two answers with log probabilities."""
    pairs = list(zip(one["token_ids"], other["token_ids"], strict=True))
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
    chances = one["logprobs"]["token_logprobs"], other["logprobs"]["token_logprobs"]
    error = max((abs(a - b) for a, b in list(zip(*chances, strict=True))[:same]), default=0.0)
    tie = None
    if same < len(pairs):
        best, *others = sorted(one["logprobs"]["top_logprobs"][same].values(), reverse=True)
        tie = round(best - others[0], 4) if others else None
    return same, len(pairs), round(error, 5), tie
