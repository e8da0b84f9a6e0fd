"""A pool whose model is a private one of a Hub: its pods fetch it, or say what to do.

The engine is started with the arguments and the environment of the pod that the operator plans for
such a pool, its token Secret resolved as the kubelet would.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.engines.engine import START_S, RealEngine
from tests.engine.hub import BRANCH, READER, STRANGER, Hub
from tests.engine.planned_pod import planned_container, start_planned
from tests.engine.real_engine import body_of

REPO = "acme/tiny-private"

pytestmark = pytest.mark.timeout(START_S + 60)


@pytest.fixture
async def hub(model: str) -> AsyncIterator[Hub]:
    async with Hub(Path(model), REPO).running() as one:
        yield one


async def pod(
    python: str,
    hub: Hub,
    folder: Path,
    *,
    session: aiohttp.ClientSession,
    token: str | None,
    revision: str = BRANCH,
    home: Path | None = None,
) -> RealEngine:
    """Start the engine of a pool's pod."""
    source: dict[str, Any] = {"revision": revision}
    if token is not None:
        source["tokenSecretRef"] = {"name": "hub", "key": "read"}
    container = planned_container(
        {"model.source": {"huggingFace": {"repo": REPO, **source}}}, HF_ENDPOINT=hub.url
    )
    return await start_planned(
        python,
        container,
        folder=folder,
        session=session,
        secrets={"hub/read": token or ""},
        home=home,
    )


async def test_a_private_model_is_fetched_with_the_pools_token_and_served(
    hub: Hub, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    engine = await pod(python, hub, tmp_path / "pod", session=session, token=READER)
    try:
        await engine.ready()
        assert len(await engine.tokens(body_of(50))) == 24
        shape = (await engine.info())["shape"]
    finally:
        await engine.end()

    # Keys and values of 2 heads of 32 in 4 layers, 4 bytes each.
    assert shape["kv_bytes_per_token"] == 2048
    fetched = {asked.path.rpartition("/")[2] for asked in hub.asked}
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= fetched
    assert {asked.token for asked in hub.asked if REPO in asked.path} == {READER}
    assert {asked.token for asked in hub.asked if asked.of_storage} == {None}
    assert READER not in engine.log.read_text()


async def test_four_pods_that_share_a_cache_download_no_more_bytes_than_one(
    hub: Hub, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    shared = tmp_path / "cache"
    shared.mkdir()

    async def served(number: int) -> list[int]:
        engine = await pod(
            *(python, hub, tmp_path / f"pod-{number}"),
            session=session,
            token=READER,
            home=shared,
        )
        try:
            await engine.ready()
            return await engine.tokens(body_of(50))
        finally:
            await engine.end()

    first = await served(0)
    downloads, downloaded_bytes = hub.downloads(), hub.downloaded_bytes()
    others = await asyncio.gather(served(1), served(2), served(3))

    assert downloads["model.safetensors"] == 1
    assert hub.downloads() == downloads
    assert hub.downloaded_bytes() == downloaded_bytes > 0
    assert others == [first, first, first]


async def test_a_model_that_cannot_be_fetched_ends_the_pod_with_what_to_do(
    hub: Hub, session: aiohttp.ClientSession, python: str, tmp_path: Path
) -> None:
    mistakes: dict[str, tuple[str | None, str, str]] = {
        "wrong-token": ("hf_mistyped-token", BRANCH, "refused the token"),
        "no-access": (STRANGER, BRANCH, "accept its terms"),
        "no-token": (None, BRANCH, "or give a token"),
        "no-revision": (READER, "v9", "no such revision"),
    }

    async def last_words(name: str) -> str:
        token, revision, _ = mistakes[name]
        engine = await pod(
            python, hub, tmp_path / name, session=session, token=token, revision=revision
        )
        async with asyncio.timeout(START_S):
            assert await engine.process.wait() == 1, engine.log.read_text()[-3000:]
        return (tmp_path / name / "termination-log").read_text()

    told = await asyncio.gather(*map(last_words, mistakes))

    for (token, _, advice), sentence in zip(mistakes.values(), told, strict=True):
        assert advice in sentence
        assert token is None or token not in sentence
