"""A router that ends loses no request: not a late one, on a kept connection, or just served."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.fake_engine import FakeEngine, Script
from tests.unit.router.pool import Pool, events, settings_document, until

STREAM = {"model": "tiny", "prompt": "x", "stream": True}
QUIET_S = 0.5
LONG = pytest.mark.parametrize(
    "bare_pool", [{"drain_quiet_s": QUIET_S, "drain_timeout_s": 20.0}], indirect=True
)
SHORT = pytest.mark.parametrize(
    "bare_pool", [{"drain_quiet_s": 3.0, "drain_timeout_s": 6.0}], indirect=True
)


# Longer than a busy machine holds up a client.
@pytest.mark.parametrize(
    "bare_pool", [{"drain_quiet_s": 4.0, "drain_timeout_s": 200.0}], indirect=True
)
async def test_requests_that_keep_coming_are_served_by_a_draining_router(pool: Pool) -> None:
    drain = asyncio.create_task(pool.router.drain())
    for _ in range(12):
        async with (
            aiohttp.ClientSession() as newcomer,
            newcomer.post(pool.url + "/v1/completions", json=STREAM) as response,
        ):
            assert response.headers["Connection"] == "close"
            assert [event async for event in events(response)][-1] == "[DONE]"
        await asyncio.sleep(0.25)
        assert not drain.done()

    await asyncio.wait_for(drain, 60)


@LONG
async def test_a_kubelet_that_keeps_probing_does_not_keep_a_router_from_ending(
    pool: Pool,
) -> None:
    drain = asyncio.create_task(pool.router.drain())
    async with asyncio.timeout(60):
        while not drain.done():
            assert await pool.probe("/accepting") == 200
            await asyncio.sleep(QUIET_S / 4)


@pytest.mark.parametrize(
    "bare_pool", [{"drain_quiet_s": 4.0, "drain_timeout_s": 200.0}], indirect=True
)
async def test_a_client_served_in_the_drain_can_ask_again_on_the_same_connection(
    pool: Pool,
) -> None:
    pool.engines["d0"].script = Script(tokens=2, gap_s=4.5)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
        url = pool.url + "/v1/completions"
        async with client.post(url, json=STREAM) as begun:
            drain = asyncio.create_task(pool.router.drain())
            # Nobody else has come for long when its stream ends.
            assert [event async for event in events(begun)][-1] == "[DONE]"
        await asyncio.sleep(0.5)
        async with client.post(url, json=STREAM) as again:
            assert [event async for event in events(again)][-1] == "[DONE]"

    await asyncio.wait_for(drain, 60)


@LONG
async def test_a_balancer_is_told_of_the_drain_and_a_kubelet_that_clients_are_served(
    pool: Pool,
) -> None:
    drain = asyncio.create_task(pool.router.drain())
    await until(lambda: pool.router.clients.draining)

    assert await pool.probe("/ready") == 503
    assert await pool.probe("/accepting") == 200
    await asyncio.wait_for(drain, 60)


@SHORT
async def test_beyond_half_of_the_drain_newcomers_are_refused_in_http(pool: Pool) -> None:
    drain = asyncio.create_task(pool.router.drain())
    refused = None
    async with asyncio.timeout(60):
        while refused is None:
            status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})
            if status != 200:
                refused = status, answer["error"]["code"], headers["Retry-After"]
            await asyncio.sleep(QUIET_S / 4)

    assert refused == (503, "draining", "1")
    assert await pool.probe("/accepting") == 503
    await asyncio.wait_for(drain, 60)


class Rollout:
    """Routers that come and go before one engine, and clients that hear of it late."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.addresses: list[str] = []
        self.finished = 0
        self.failures: list[str] = []

    async def start(self) -> Router:
        router = Router(
            RouterOptions(
                host="127.0.0.1", port=0, internal_port=0, drain_quiet_s=0.3, drain_timeout_s=20.0
            )
        )
        await router.start()
        # A machine that stands still while the router connects must not look like a dead engine.
        settings = settings_document(timeouts={"connect_s": 30.0})
        router.settings.current = parse_settings(json.dumps(settings))
        router.fleet.replace(
            [Endpoint(name="d0", role=Role.DECODE, host="127.0.0.1", port=self.engine.port)]
        )
        self.addresses.append(f"http://127.0.0.1:{router.port}/v1/completions")
        return router

    async def end(self, router: Router, *, told_after_s: float) -> None:
        drain = asyncio.create_task(router.drain())
        await asyncio.sleep(told_after_s)
        self.addresses.remove(f"http://127.0.0.1:{router.port}/v1/completions")
        await asyncio.wait_for(drain, 60)
        await router.close()

    async def client(self, number: int, *, keeps: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keeps)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                url = self.addresses[(number + self.finished) % len(self.addresses)]
                try:
                    async with session.post(url, json=STREAM) as response:
                        if response.status != 200:
                            self.failures.append(f"{response.status} {await response.text()}")
                        elif [event async for event in events(response)][-1] != "[DONE]":
                            self.failures.append("a stream without its end")
                except aiohttp.ClientError as error:
                    self.failures.append(repr(error))
                self.finished += 1
                await asyncio.sleep(number % 5 / 100)


@asynccontextmanager
async def _clients(rollout: Rollout) -> AsyncIterator[None]:
    tasks = [
        asyncio.create_task(rollout.client(number, keeps=number % 2 == 0)) for number in range(8)
    ]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.timeout(400, method="thread")
async def test_twenty_rollouts_under_load_lose_no_request() -> None:
    rollout = Rollout(await FakeEngine("d0").start())
    router = await rollout.start()
    async with _clients(rollout):
        for number in range(20):
            following, before = await rollout.start(), rollout.finished
            await rollout.end(router, told_after_s=(number % 4) * 0.1)
            # However slow the machine is, each rollout is one under load.
            await until(lambda before=before: rollout.finished > before + 10)
            router = following

    assert rollout.failures == []
    await router.close()
    await rollout.engine.stop()
