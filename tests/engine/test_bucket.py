"""A pool whose model lies in a bucket: vLLM streams it, or pods that share a cache copy it once.

The engine is started with the arguments and the environment of the pod that the operator plans for
such a pool, its Secret resolved as the kubelet would.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.engines.engine import START_S, RealEngine
from tests.engine.bucket import KEY_ID, SECRET, Bucket
from tests.engine.planned_pod import planned_container, start_planned
from tests.engine.real_engine import body_of

KEYS = {
    "reader/AWS_ACCESS_KEY_ID": KEY_ID,
    "reader/AWS_SECRET_ACCESS_KEY": SECRET,
}

pytestmark = pytest.mark.timeout(START_S + 60)


@pytest.fixture
async def bucket(model: str) -> AsyncIterator[Bucket]:
    async with Bucket(Path(model), "models", "tiny/v1").running() as one:
        yield one


async def pod(
    python: str,
    bucket: Bucket,
    folder: Path,
    *,
    session: aiohttp.ClientSession,
    uri: str | None = None,
    keys: dict[str, str] = KEYS,
    cache: Path | None = None,
) -> RealEngine:
    """Start the engine of a pool's pod; `cache` is what pods of the pool share, if they do."""
    source = {"uri": uri or bucket.uri, "credentialsSecretRef": {"name": "reader"}}
    changes: dict[str, Any] = {"model.source": source}
    if cache is not None:
        changes["model.cache"] = {"size": "1Gi"}
    container = planned_container(changes, **bucket.environment)
    return await start_planned(
        python,
        container,
        folder=folder,
        session=session,
        secrets=keys,
        home=folder if cache is None else cache,
    )


async def answer_of(engine: RealEngine) -> tuple[list[int], dict[str, Any]]:
    try:
        await engine.ready()
        return await engine.tokens(body_of(50)), await engine.info()
    finally:
        await engine.end()


async def test_vllm_streams_a_model_from_a_bucket_with_the_pools_keys(
    bucket: Bucket, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    engine = await pod(python, bucket, tmp_path / "pod", session=session)
    tokens, info = await answer_of(engine)

    assert len(tokens) == 24
    # Keys and values of 2 heads of 32 in 4 layers, 4 bytes each.
    assert info["shape"]["kv_bytes_per_token"] == 2048
    weights = bucket.folder / "model.safetensors"
    assert bucket.sent(weights.name) >= weights.stat().st_size
    assert not list((tmp_path / "pod").rglob("*.safetensors"))
    assert SECRET not in engine.log.read_text()


async def test_pods_that_share_a_cache_copy_a_bucket_once(
    bucket: Bucket, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    shared = tmp_path / "cache"
    shared.mkdir()

    async def served(number: int) -> list[int]:
        engine = await pod(
            *(python, bucket, tmp_path / f"pod-{number}"), session=session, cache=shared
        )
        return (await answer_of(engine))[0]

    first, second = await asyncio.gather(served(0), served(1))

    for file in bucket.folder.iterdir():
        assert bucket.sent(file.name) == file.stat().st_size
    assert first == second


async def test_a_bucket_that_cannot_be_read_ends_the_pod_with_what_to_do(
    bucket: Bucket, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    stranger = {**KEYS, "reader/AWS_ACCESS_KEY_ID": "AKIASTRANGER"}
    mistakes: dict[str, tuple[dict[str, str], str, str]] = {
        "keys": (stranger, bucket.uri, "refused the credentials"),
        "bucket": (KEYS, "s3://other/tiny", "no bucket of this name"),
        "prefix": (KEYS, "s3://models/tiny/v2", "spec.model.source.uri"),
    }
    pods = [("keys", None), ("prefix", None), *((name, tmp_path) for name in mistakes)]

    async def last_words(number: int, name: str, cache: Path | None) -> str:
        keys, uri, _ = mistakes[name]
        folder = tmp_path / f"pod-{number}"
        engine = await pod(python, bucket, folder, session=session, uri=uri, keys=keys, cache=cache)
        async with asyncio.timeout(START_S):
            assert await engine.process.wait() == 1, engine.log.read_text()[-3000:]
        return (folder / "termination-log").read_text()

    told = await asyncio.gather(*(last_words(at, *each) for at, each in enumerate(pods)))

    for (name, _), sentence in zip(pods, told, strict=True):
        assert mistakes[name][2] in sentence
        assert SECRET not in sentence
