"""A real Prometheus that turns classic histograms into native ones as it scrapes."""

import asyncio
import contextlib
import json
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_operator.core.role import Role
from tandem_operator.metrics.prometheus import PrometheusSource
from tandem_operator.metrics.prometheus_access import ServerAccess
from tandem_operator.metrics.source import EngineTarget, Reading, RouterTarget, Targets
from tests.golden.dashboard_parts import expressions
from tests.integration.prometheus_server import running, scrape_config
from tests.unit.metrics.servers import serving

NAMESPACE, ROUTER = "native", "tiny-router-1"
BUCKETS = "last_over_time(tandem_router_ttft_seconds_bucket[5m])"
"""Also right after a scrape that came too late."""
TARGETS = Targets(
    namespace=NAMESPACE,
    pool="tiny",
    engines=(EngineTarget("e-1", Role.DECODE, "127.0.0.1", 9),),
    routers=(RouterTarget(ROUTER, "127.0.0.1", 9),),
)


class Pages:
    """An engine and a router that serve a request before each scrape."""

    def __init__(self) -> None:
        self.engine, self.router = CollectorRegistry(), RouterMetrics()
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
            Gauge(name, name, registry=self.engine).set(3)
        self.steps = Histogram("vllm:inter_token_latency_seconds", "ITL", registry=self.engine)

    def of_engine(self, _: object) -> str:
        self.steps.observe(0.02)
        return generate_latest(self.engine).decode()

    def of_router(self, _: object) -> str:
        self.router.ttft.observe(0.3)
        self.router.tpot.observe(0.02)
        self.router.ttft_part.labels("prefill").observe(0.2)
        return self.router.exposition().decode()


@contextlib.asynccontextmanager
async def scraping(folder: Path, **job: Any) -> AsyncIterator[tuple[str, Pages]]:
    pages = Pages()
    async with (
        serving({"/metrics": pages.of_engine}) as (engine, _),
        serving({"/metrics": pages.of_router}) as (router, _),
    ):
        ports = {"e-1": engine, ROUTER: router}
        server = contextlib.ExitStack()
        made = running(folder, scrape_config(ports, namespace=NAMESPACE, **job))
        url = await asyncio.to_thread(server.enter_context, made)
        try:
            yield url, pages
        finally:
            await asyncio.to_thread(server.close)


async def until_read(url: str) -> Reading:
    """Return the operator's reading of a server once it has scraped a window without a gap."""
    async with aiohttp.ClientSession() as session:
        source = PrometheusSource(ServerAccess(session, url))
        for _ in range(300):
            reading = await source.read(TARGETS, now_s=1000.0)
            timed = reading.latency is not None and reading.latency.ttft.p50_s is not None
            if timed and reading.engines and not reading.problems:
                break
            await asyncio.sleep(0.5)
    return reading


def answers(url: str, query: str) -> list[Any]:
    asked = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.mark.parametrize("native", [False, True])
async def test_the_operator_reads_the_same_of_native_histograms(
    tmp_path: Path, native: bool
) -> None:
    async with scraping(tmp_path, convert_classic_histograms_to_nhcb=native) as (url, _):
        reading = await until_read(url)
        buckets = await asyncio.to_thread(answers, url, BUCKETS)

    assert (buckets == []) is native
    assert reading.problems == ()
    [engine] = reading.engines
    assert (engine.running, engine.waiting) == (3.0, 3.0)
    assert engine.itl_count is not None
    assert engine.itl_count >= 1
    assert engine.itl_sum_s == pytest.approx(0.02 * engine.itl_count)
    assert reading.latency is not None
    assert reading.latency.ttft.p50_s == pytest.approx(0.3, rel=0.15)
    assert reading.latency.tpot.p99_s == pytest.approx(0.02, rel=0.15)


async def test_the_dashboards_show_native_histograms(tmp_path: Path) -> None:
    asked = {
        each.place: each.text
        for each in expressions()
        if "tandem_router_" in each.text and ("_bucket{" in each.text or "_sum{" in each.text)
    }
    assert len(asked) > 3
    for variable, value in {
        "$__rate_interval": "1m",
        "$namespace": ".*",
        "${pool}": "tiny",
    }.items():
        asked = {place: text.replace(variable, value) for place, text in asked.items()}

    async with scraping(tmp_path, convert_classic_histograms_to_nhcb=True) as (url, _):
        await until_read(url)
        found = {
            place: await asyncio.to_thread(answers, url, text) for place, text in asked.items()
        }

    empty = [place for place, answer in found.items() if not answer]
    assert empty == []
