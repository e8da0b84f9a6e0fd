"""A Prometheus server that answers no pool in time does not delay every pass."""

import asyncio
from dataclasses import replace

import aiohttp

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.metrics import collect, prometheus
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.silent_servers import TRIED_EVERY_S, SilentServers
from tandem_operator.workloads.world import InstalledPrometheus
from tests.unit.metrics.servers import access, serving
from tests.unit.metrics.test_direct import ENGINE_PAGE, hangs
from tests.unit.metrics.test_prometheus import NOW_S, targets
from tests.unit.workloads.cluster import INSTALLATION

URL, ONE, TWO = "https://p", ("ns", "one"), ("ns", "two")


def silent(*pools, now_s=100.0):
    made = SilentServers()
    for pool in pools:
        made.note(URL, pool=pool, answered=False, now_s=now_s)
    return made


def test_one_pool_that_asks_for_too_much_is_no_silent_server():
    made = silent(ONE, ONE)

    assert made.may_ask(URL, now_s=101.0)


def test_a_silent_server_is_tried_once_in_a_while():
    made = silent(ONE, TWO)

    assert not made.may_ask(URL, now_s=101.0)
    assert made.may_ask("https://other", now_s=101.0)
    later_s = 100.0 + TRIED_EVERY_S
    assert [made.may_ask(URL, now_s=later_s) for _ in range(3)] == [True, False, False]


def test_one_answer_opens_it_for_all():
    made = silent(ONE, TWO)
    made.note(URL, pool=ONE, answered=True, now_s=101.0)

    assert made.may_ask(URL, now_s=101.0)


def test_a_pool_that_is_gone_counts_no_more():
    made = silent(ONE, TWO)
    made.forget(TWO)

    assert made.may_ask(URL, now_s=101.0)


async def test_pools_are_read_from_their_pods_without_waiting_for_a_silent_server(monkeypatch):
    monkeypatch.setattr(collect, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(prometheus.PrometheusSource.__init__, "__kwdefaults__", {"timeout_s": 0.5})
    async with (
        serving({"/api/v1/query": hangs}) as (port, asked),
        serving({"/metrics": ENGINE_PAGE}) as (engine, _),
        aiohttp.ClientSession() as session,
    ):
        own = InstalledPrometheus(url=f"http://127.0.0.1:{port}")
        collector = Collector(
            session, servers=access(session, replace(INSTALLATION, prometheus=own))
        )

        async def look(pool):
            wanted = replace(targets(engine_port=engine, routers=False), pool=pool)
            return await collector.collect(wanted, Metrics(), now_s=NOW_S)

        await asyncio.gather(look("one"), look("two"))
        times = len(asked)
        third = await look("three")

    assert len(asked) == times
    assert third.fault == "Prometheus: no answer in 3 s"
    assert len(third.engines) == 1
