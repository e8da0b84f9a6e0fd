"""An engine that sends several tokens in one event, behind a router that counts and passes on."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.engines.engine import REQUEST_S, START_S, RealEngine, start
from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import parse_settings
from tandem_engine.serve import vllm_metrics
from tandem_engine.serve.vllm_api import VllmApi
from tests.engine.real_engine import SMALL, body_of
from tests.unit.router.pool import settings_document

INTERVAL, TOKENS = 4, 24

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealEngine]:
    log = tmp_path_factory.mktemp("engine") / "decode.log"
    options = (
        "--role=decode",
        f"--model={model}",
        f"--extra-arg=--stream-interval={INTERVAL}",
        *SMALL,
    )
    async with aiohttp.ClientSession() as session:
        engine = await start(python, *options, session=session, log=log)
        try:
            await engine.ready()
            yield engine
        finally:
            await engine.end()


@pytest_asyncio.fixture(loop_scope="module")
async def router(engine: RealEngine) -> AsyncIterator[Router]:
    router = Router(RouterOptions(host="127.0.0.1", port=0, internal_port=0))
    router.settings.current = parse_settings(json.dumps(settings_document(slo={"ttft_s": 60.0})))
    await router.start()
    decode = Endpoint(
        name="decode", role=Role.DECODE, host="127.0.0.1", port=engine.port, ready=True
    )
    router.fleet.upsert(decode)
    yield router
    await router.close()


async def events(router: Router, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream through the router."""
    timeout = aiohttp.ClientTimeout(total=REQUEST_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(f"http://127.0.0.1:{router.port}/v1/completions", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()
        lines = [line async for line in answer.content if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


async def counted(router: Router) -> float:
    """Return the output tokens that the router says it has passed on."""
    async with aiohttp.ClientSession() as session:
        samples = await VllmApi(session, f"http://127.0.0.1:{router.internal_port}").samples()
    return vllm_metrics.total(samples, "tandem_router_output_tokens_total")


async def test_tokens_that_come_in_one_event_are_all_passed_on_and_counted(
    engine: RealEngine, router: Router
) -> None:
    body = body_of(40, max_tokens=TOKENS, ignore_eos=True)

    sent = await events(router, body | {"stream": True})
    alone = await engine.tokens(body)

    choices = [event["choices"][0] for event in sent if event["choices"]]
    assert [token for choice in choices for token in choice["token_ids"]] == alone
    # The first comes at once, and the last ones with the end.
    assert len(choices[0]["token_ids"]) == 1
    assert len(choices) <= 2 + TOKENS / INTERVAL
    assert await counted(router) == TOKENS
