"""The operator's own ports."""

import asyncio
import contextlib
import threading

import aiohttp
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from e2e.cluster.ports import free_ports
from tandem_operator.metrics.exported import Exported
from tandem_operator.serving import ProbeHealth, Servers
from tandem_operator.workqueue import KeyedQueue, WorkPace


class Slow:
    """A metric that takes until the test lets it go."""

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def describe(self):
        return [GaugeMetricFamily("slow_to_tell", "x")]

    def collect(self):
        self.asked.set()
        assert self.go.wait(60.0)
        yield GaugeMetricFamily("slow_to_tell", "x", value=1)


@contextlib.asynccontextmanager
async def serving(refresh=lambda: None):
    health, metrics = free_ports(2)
    servers = Servers(ProbeHealth(), health_port=health, metrics_port=metrics, refresh=refresh)
    await servers.start()
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            yield session, f"http://127.0.0.1:{metrics}/metrics", f"http://127.0.0.1:{health}"
    finally:
        await servers.stop()


async def test_the_loop_goes_on_while_a_page_of_metrics_is_written():
    slow = Slow()
    REGISTRY.register(slow)
    try:
        async with serving() as (session, metrics, health):
            plain = {"Accept-Encoding": "identity"}
            page = asyncio.create_task(session.get(metrics, headers=plain))
            await asyncio.to_thread(slow.asked.wait, 60.0)
            async with session.get(f"{health}/healthz") as answer:
                assert answer.status == 200
            assert not page.done()
            slow.go.set()
            async with await page as answer:
                assert b"slow_to_tell 1.0" in await answer.read()
    finally:
        slow.go.set()
        REGISTRY.unregister(slow)


async def test_a_scrape_gets_what_it_names_and_packed_if_it_can_unpack():
    async with serving() as (session, metrics, _):
        plain = {"Accept-Encoding": "identity"}
        query = {"name[]": "python_info"}
        async with session.get(metrics, params=query, headers=plain) as answer:
            lines = (await answer.text()).splitlines()
        async with session.get(metrics, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"

    assert [line for line in lines if not line.startswith(("#", "python_info{"))] == []
    assert any(line.startswith("python_info{") for line in lines)


async def test_what_belongs_to_the_loop_is_read_on_the_loop():
    registry = CollectorRegistry()
    exported = Exported(registry)
    queue = KeyedQueue(lambda key: None, pace=WorkPace(settle_s=0.0))
    queue.add("one")
    exported.depth = lambda: queue.depth

    async with (
        serving(exported.refresh) as (session, metrics, _),
        session.get(metrics) as answer,
    ):
        assert answer.status == 200

    assert registry.get_sample_value("tandem_queue_depth") == 1.0
