"""A Prometheus server that answers no pool in time does not delay every pass."""

import asyncio
from dataclasses import replace

import aiohttp

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.metrics import collect, prometheus
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.prometheus_access import TENANT_HEADER
from tandem_operator.metrics.silent_servers import TRIED_EVERY_S, AskedServer, SilentServers
from tandem_operator.workloads.world import InstalledPrometheus
from tests.unit.metrics.servers import access, serving
from tests.unit.metrics.test_direct import ENGINE_PAGE, hangs
from tests.unit.metrics.test_prometheus import NOW_S, targets
from tests.unit.workloads.cluster import INSTALLATION

URL, ONE, TWO, THREE = "https://p", ("ns", "one"), ("ns", "two"), ("ns", "three")
SERVER, OF_ANOTHER_TENANT = AskedServer(URL, "a"), AskedServer(URL, "b")


def silent(*pools, server=SERVER, now_s=100.0):
    made = SilentServers()
    for pool in pools:
        made.note(server, pool=pool, answered=False, now_s=now_s)
    return made


def test_one_pool_that_asks_for_too_much_is_no_silent_server():
    made = silent(ONE, ONE)

    assert made.may_ask(SERVER, pool=ONE, now_s=101.0)


def test_a_silent_server_is_tried_once_in_a_while():
    made = silent(ONE, TWO)

    assert not made.may_ask(SERVER, pool=THREE, now_s=101.0)
    assert made.may_ask(AskedServer("https://other", "a"), pool=THREE, now_s=101.0)
    later_s = 100.0 + TRIED_EVERY_S
    asked = [made.may_ask(SERVER, pool=pool, now_s=later_s) for pool in (ONE, TWO, THREE)]
    assert asked == [True, False, False]


def test_one_answer_opens_it_for_all_that_ask_alike():
    made = silent(ONE, TWO)
    made.note(SERVER, pool=ONE, answered=True, now_s=101.0)

    assert made.may_ask(SERVER, pool=TWO, now_s=101.0)


def test_a_pool_that_is_gone_counts_no_more():
    made = silent(ONE, TWO)
    made.forget(TWO)

    assert made.may_ask(SERVER, pool=ONE, now_s=101.0)


def test_pools_of_one_tenant_make_a_server_silent_for_no_other():
    made = silent(ONE, TWO, server=OF_ANOTHER_TENANT)

    assert made.may_ask(SERVER, pool=THREE, now_s=101.0)
    assert not made.may_ask(OF_ANOTHER_TENANT, pool=ONE, now_s=101.0)


def test_a_server_that_is_silent_to_several_tenants_delays_only_new_tenants():
    made = silent(ONE)
    made.note(OF_ANOTHER_TENANT, pool=TWO, answered=False, now_s=100.0)

    assert not made.may_ask(SERVER, pool=ONE, now_s=101.0)
    assert not made.may_ask(OF_ANOTHER_TENANT, pool=TWO, now_s=101.0)
    assert made.may_ask(SERVER, pool=THREE, now_s=101.0)


def test_a_pool_counts_where_it_asked_last():
    made = silent(ONE, TWO)
    made.note(OF_ANOTHER_TENANT, pool=TWO, answered=False, now_s=101.0)
    assert made.may_ask(SERVER, pool=THREE, now_s=101.0)

    made.note(OF_ANOTHER_TENANT, pool=TWO, answered=True, now_s=102.0)

    assert made.may_ask(SERVER, pool=ONE, now_s=102.0)
    assert made.may_ask(OF_ANOTHER_TENANT, pool=TWO, now_s=102.0)


async def test_pools_are_read_from_their_pods_without_waiting_for_a_silent_server(monkeypatch):
    monkeypatch.setattr(collect, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(prometheus.PrometheusSource.__init__, "__kwdefaults__", {"timeout_s": 2.0})
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


async def test_a_tenant_whose_questions_hang_delays_no_other(monkeypatch):
    monkeypatch.setattr(collect, "TIMEOUT_S", 60.0)
    monkeypatch.setattr(prometheus.PrometheusSource.__init__, "__kwdefaults__", {"timeout_s": 2.0})

    async def of_tenant(request):
        if request.headers.get(TENANT_HEADER) == "huge":
            await hangs(request)
        return '{"status": "success", "data": {"resultType": "vector", "result": []}}'

    async with (
        serving({"/api/v1/query": of_tenant}) as (port, asked),
        aiohttp.ClientSession() as session,
    ):
        own = InstalledPrometheus(url=f"http://127.0.0.1:{port}")
        collector = Collector(
            session, servers=access(session, replace(INSTALLATION, prometheus=own))
        )

        async def look(pool, **server):
            wanted = replace(targets(routers=False), pool=pool)
            metrics = Metrics.model_validate({"prometheus": server} if server else {})
            return await collector.collect(wanted, metrics, now_s=NOW_S)

        await asyncio.gather(look("one", tenant="huge"), look("two", tenant="huge"))
        times = len(asked)
        assert (await look("three", tenant="huge")).fault == "Prometheus: no answer in 3 s"
        assert len(asked) == times
        other = await look("four")

    assert len(asked) > times
    assert other.fault is None
