import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import uvloop

from tandem_engine.router.app import Router, RouterOptions
from tests.unit.router.pool import Pool
from tests.unit.router.two_routers import KEY, peer, router_before


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests on the event loop that the router runs on."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_itemcollected(item: pytest.Item) -> None:
    """End a test that hangs: this event loop swallows what a signal's handler raises."""
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(method="thread"))


@pytest.fixture
async def bare_pool(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """A router with settings and without any engine; its parameter are options of its drain."""
    options = RouterOptions(
        name="tiny-router-0",
        host="127.0.0.1",
        port=0,
        internal_port=0,
        timing_record=tmp_path / "timings.jsonl",
        **{"drain_quiet_s": 0.05, "drain_timeout_s": 1.0, **getattr(request, "param", {})},
    )
    router = Router(options)
    await router.start()
    router.fleet.replace(())
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:
        pool = Pool(router, client)
        pool.configure()
        yield pool
    await router.close()
    for engine in pool.engines.values():
        await engine.stop()
    for held in pool.held:
        held.close()


@pytest.fixture
async def pool(bare_pool: Pool) -> Pool:
    """A router with one prefill pod `p0` and one decode pod `d0`."""
    await bare_pool.add("p0")
    await bare_pool.add("d0")
    return bare_pool


@pytest.fixture
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Pool, Pool]]:
    """Two routers before the same engines; its parameter are their keys."""
    keys = getattr(request, "param", (KEY, KEY))
    one, other = [await router_before(f"r{number}", key) for number, key in enumerate(keys)]
    for name in ("p0", "p1", "d0"):
        engine = await one.add(name)
        other.engines[name], other.revisions[name] = engine, "a"
        other.show(name)
    one.router.peers.replace([peer(other, "r1")])
    other.router.peers.replace([peer(one, "r0")])
    yield one, other
    for pool in (one, other):
        await pool.router.close()
        await pool.client.close()
    for engine in one.engines.values():
        await engine.stop()
