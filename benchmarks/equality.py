r"""Compare a pool's answers with those of one plain vLLM, token by token.

Sends distinct prompts of 5 to 1,900 tokens at temperature 0 to the router and to a plain vLLM with
the same model in float32, and reads from the decode pods' metrics how many prompt tokens came over
KV transfer. Prints one JSON object; exits with 1 if any answer differs or fails.

    python -m benchmarks.equality --router http://127.0.0.1:30080 --plain http://127.0.0.1:8100 \
        --decode-metrics http://127.0.0.1:8002/metrics
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tandem_engine.serve import vllm_metrics

SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
SHORTEST_TOKENS, LONGEST_TOKENS = 5, 1900
# Word tokens of the demo model, and ordinary ones of any larger vocabulary.
TOKEN_IDS = range(300, 1000)
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One prompt whose answers are not the same."""

    prompt: int
    prompt_tokens: int
    first_at: int | None
    router: Any
    plain: Any


def prompts(count: int, *, seed: int) -> list[list[int]]:
    """Return `count` prompts that share no beginning, their lengths spread over the whole range."""
    draw = random.Random(seed)
    span = LONGEST_TOKENS - SHORTEST_TOKENS
    lengths = [SHORTEST_TOKENS + span * index // max(1, count - 1) for index in range(count)]
    draw.shuffle(lengths)
    firsts = draw.sample([(one, two) for one in TOKEN_IDS for two in TOKEN_IDS], count)
    return [
        [*first, *draw.choices(TOKEN_IDS, k=length - len(first))]
        for first, length in zip(firsts, lengths, strict=True)
    ]


async def answers(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    asked: Sequence[Sequence[int]],
    *,
    output_tokens: int,
    at_a_time: int,
) -> list[dict[str, Any]]:
    """Return token ids and finish reason of every answer, or the error in its place."""
    gate = asyncio.Semaphore(at_a_time)

    async def one(prompt: Sequence[int]) -> dict[str, Any]:
        body = {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": output_tokens,
            "temperature": 0,
            "return_token_ids": True,
        }
        async with gate:
            try:
                async with session.post(f"{url}/v1/completions", json=body) as answer:
                    if answer.status != 200:
                        return {"error": f"HTTP {answer.status}: {(await answer.text())[:200]}"}
                    choice = (await answer.json())["choices"][0]
            except (aiohttp.ClientError, TimeoutError) as error:
                return {"error": repr(error)}
        return {"tokens": choice["token_ids"], "finish": choice["finish_reason"]}

    return await asyncio.gather(*(one(prompt) for prompt in asked))


def differences(
    asked: Sequence[Sequence[int]], router: Sequence[Any], plain: Sequence[Any]
) -> list[Difference]:
    """Return the prompts whose answers differ; an error on either side is a difference."""
    found = []
    for index, (prompt, one, other) in enumerate(zip(asked, router, plain, strict=True)):
        if one == other and "error" not in one:
            continue
        pairs = zip(one.get("tokens", ()), other.get("tokens", ()), strict=False)
        at = next((place for place, (a, b) in enumerate(pairs) if a != b), None)
        found.append(Difference(index, len(prompt), at, one, other))
    return found


async def prompt_tokens(session: aiohttp.ClientSession, urls: Sequence[str]) -> dict[str, float]:
    """Return the prompt tokens by source, summed over decode engines."""
    totals = dict.fromkeys(SOURCES, 0.0)
    for url in urls:
        async with session.get(url) as answer:
            answer.raise_for_status()
            samples = vllm_metrics.parse(await answer.text())
        for source in SOURCES:
            totals[source] += vllm_metrics.total(
                samples, "vllm:prompt_tokens_by_source_total", source=source
            )
    return totals


async def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Run both sides and return the findings."""
    asked = prompts(options.prompts, seed=options.seed)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        before = await prompt_tokens(session, options.decode_metrics)
        sides: dict[str, list[dict[str, Any]]] = {}
        seconds: dict[str, float] = {}
        for side, url in (("router", options.router), ("plain", options.plain)):
            started = time.monotonic()
            sides[side] = await answers(
                session,
                url.rstrip("/"),
                options.model,
                asked,
                output_tokens=options.output_tokens,
                at_a_time=options.at_a_time,
            )
            seconds[side] = round(time.monotonic() - started, 2)
        after = await prompt_tokens(session, options.decode_metrics)
    pulled = {source: after[source] - before[source] for source in SOURCES}
    uncached = pulled["local_compute"] + pulled["external_kv_transfer"]
    found = differences(asked, sides["router"], sides["plain"])
    return {
        "prompts": len(asked),
        "prompt_tokens": sum(map(len, asked)),
        "at_a_time": options.at_a_time,
        "output_tokens": sum(len(answer.get("tokens", ())) for answer in sides["router"]),
        "differing": len(found),
        "decode_prompt_tokens": pulled,
        "kv_transfer_share": round(pulled["external_kv_transfer"] / uncached, 4)
        if uncached
        else None,
        "seconds": seconds,
        "differences": [
            {
                "prompt": one.prompt,
                "prompt_tokens": one.prompt_tokens,
                "first_at": one.first_at,
                "router": one.router,
                "plain": one.plain,
            }
            for one in found
        ],
    }


def main() -> int:
    """Parse the command line, compare, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--router", required=True, help="URL of the pool's router")
    parser.add_argument("--plain", required=True, help="URL of one vLLM with the same model")
    parser.add_argument(
        "--decode-metrics", action="append", default=[], help="metrics URL of each decode engine"
    )
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--at-a-time", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    result = asyncio.run(compare(parser.parse_args()))
    print(json.dumps(result, indent=1))
    return 1 if result["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
