"""Engines of two roles exchange KV blocks, although they differ in all that a pool allows."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.engines.engine import START_S, Pair, start
from tests.engine.real_engine import SMALL, body_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]

OWN = {
    "prefill": (
        "--max-num-seqs=4",
        "--no-prefix-caching",
        "--extra-arg=--max-num-batched-tokens=512",
    ),
    "decode": (
        "--kv-cache-memory-bytes=100663296",
        "--extra-arg=--no-enable-chunked-prefill",
        "--extra-arg=--max-num-batched-tokens=2048",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    logs = tmp_path_factory.mktemp("engines")
    async with aiohttp.ClientSession() as session:
        prefill, decode = [
            await start(
                python,
                f"--role={role}",
                f"--model={model}",
                *SMALL,
                *own,
                session=session,
                log=logs / f"{role}.log",
            )
            for role, own in OWN.items()
        ]
        try:
            await asyncio.gather(prefill.ready(), decode.ready())
            yield Pair(prefill, decode)
        finally:
            for engine in (prefill, decode):
                await engine.end()


async def test_decode_engines_pull_every_token_of_engines_with_other_settings(pair: Pair) -> None:
    lengths = [5, 31, 32, 33, 63, 64, 65, 200, 777, 1900]

    through_both = [await pair.tokens(body_of(length)) for length in lengths]

    assert through_both == [await pair.prefill.tokens(body_of(length)) for length in lengths]
    assert await pair.decode.prompt_tokens("external_kv_transfer") == sum(lengths)
