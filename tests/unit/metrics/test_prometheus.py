"""The Prometheus source against a small server that speaks its query API."""

import asyncio
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.core.role import Role
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.prometheus import PrometheusSource
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tests.unit.metrics.servers import access, server_at, serving
from tests.unit.metrics.test_direct import ENGINE_PAGE, hangs
from tests.unit.workloads.cluster import INSTALLATION

NOW_S = 5000.0


class Prometheus:
    """Answers the queries that the source asks, with samples of a given age."""

    def __init__(self, *, age_s=4.0, running="3", pods=("e-1", "r-1")):
        self.age_s, self.running, self.pods = age_s, running, pods

    def __call__(self, request):
        query = request.query["query"]
        return web.json_response(
            {"status": "success", "data": {"resultType": "vector", "result": self.result(query)}}
        )

    def result(self, query):
        clock = 9000.0  # Its clock is not ours.
        if query.startswith("timestamp("):
            return [
                {"metric": {"pod": pod}, "value": [clock, str(clock - self.age_s)]}
                for pod in self.pods
                if f"{pod}" in query
            ]
        if query.startswith("sum by (le)"):
            return [
                {"metric": {"le": le}, "value": [clock, count]}
                for le, count in (("0.1", "0"), ("0.2", "10"), ("+Inf", "10"))
            ]
        names = {"vllm:num_requests_running": self.running, "vllm:num_requests_waiting": "1"}
        return [
            {"metric": {"__name__": name, "pod": pod}, "value": [clock, value]}
            for name, value in names.items()
            for pod in self.pods
            if pod.startswith("e")
        ]


def targets(*, engine_port=8000, routers=True):
    return Targets(
        namespace="ns",
        pool="tiny",
        engines=(EngineTarget("e-1", Role.PREFILL, "127.0.0.1", engine_port),),
        routers=(RouterTarget("r-1", "127.0.0.1", 1),) if routers else (),
    )


async def read(server, **options):
    async with (
        serving({"/api/v1/query": server}) as (port, seen),
        aiohttp.ClientSession() as session,
    ):
        source = PrometheusSource(server_at(session, f"http://127.0.0.1:{port}/"), **options)
        return await source.read(targets(), now_s=NOW_S), seen


async def test_samples_carry_their_age_on_our_clock():
    reading, seen = await read(Prometheus(age_s=4.0))

    assert [(e.running, e.waiting, e.sampled_s) for e in reading.engines] == [(3.0, 1.0, 4996.0)]
    assert reading.latency.sampled_s == 4996.0
    assert reading.latency.ttft.p50_s == pytest.approx(0.15)
    assert reading.problems == ()
    assert all('namespace="ns"' in query["query"] for _, query in seen)


async def test_stale_samples_are_no_samples():
    reading, _ = await read(Prometheus(age_s=45.0))

    assert reading.engines == ()
    assert reading.latency is None
    assert "e-1: the samples in Prometheus are 45 s old" in reading.problems


def scrape(job, *, age_s, running, clock=9000.0):
    """Return the samples of one scrape job from a pod's page of two ranks, by query."""
    target = {"pod": "e-1", "namespace": "ns", "job": job}
    ranks = [{**target, "engine": rank, "model_name": "m"} for rank in ("0", "1")]
    ages = [{"metric": rank, "value": [clock, str(clock - age_s)]} for rank in ranks]
    values = {
        "vllm:num_requests_running": running,
        "vllm:num_requests_waiting": "1",
        "vllm:inter_token_latency_seconds_sum": running,
        "vllm:inter_token_latency_seconds_count": running,
    }
    metrics = [
        {"metric": {"__name__": name, **rank}, "value": [clock, value]}
        for name, value in values.items()
        for rank in ranks
    ]
    metrics += [
        {
            "metric": {
                "__name__": "vllm:cache_config_info",
                **target,
                "engine": rank["engine"],
                "block_size": "16",
                "num_gpu_blocks": "100",
            },
            "value": [clock, "1"],
        }
        for rank in ranks
    ]
    return ages, metrics


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_of_two_scrape_jobs_the_newer_one_is_read_and_the_other_is_not_added(order):
    jobs = (
        scrape("pods", age_s=40.0, running="3"),
        scrape("monitor", age_s=4.0, running="5"),
    )

    def answer(request):
        query = request.query["query"]
        if "tandem_router" in query:
            return web.json_response({"status": "success", "data": {"result": []}})
        part = 0 if query.startswith("timestamp(") else 1
        result = [element for job in order for element in jobs[job][part]]
        return web.json_response({"status": "success", "data": {"result": result}})

    reading, _ = await read(answer)

    (engine,) = reading.engines
    assert (engine.running, engine.waiting, engine.sampled_s) == (10.0, 2.0, 4996.0)
    assert (engine.itl_sum_s, engine.itl_count) == (10.0, 10.0)
    assert engine.kv_capacity_tokens == 3200


async def test_a_router_that_two_jobs_scrape_is_as_fresh_as_the_newer_one():
    server = Prometheus(age_s=4.0)

    def answer(request):
        query = request.query["query"]
        result = server.result(query)
        if query.startswith("timestamp("):
            result = [
                {"metric": {**each["metric"], "job": job}, "value": [9000.0, str(9000.0 - age_s)]}
                for each in result
                for job, age_s in (("gone", 200.0), ("monitor", 4.0))
            ]
        return web.json_response({"status": "success", "data": {"result": result}})

    reading, seen = await read(answer)

    assert reading.latency.sampled_s == 4996.0
    assert any("max by (pod, le)" in query["query"] for _, query in seen)


@pytest.mark.parametrize("value", ["NaN", "-3"])
async def test_a_load_that_is_no_number_is_unknown(value):
    reading, _ = await read(Prometheus(running=value))

    assert reading.engines == ()
    assert "shows no load" in reading.problems[0]


async def test_a_pod_that_prometheus_does_not_know_is_named():
    reading, _ = await read(Prometheus(pods=("r-1",)))

    assert reading.engines == ()
    assert reading.problems[0] == "e-1: Prometheus has no samples"


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(status=503, text="starting"),
        lambda _: web.Response(status=400, text="parse error"),
        lambda _: web.Response(text="<html>login</html>"),
        lambda _: web.json_response({"status": "success", "data": {"result": [{"metric": {}}]}}),
        lambda _: web.json_response({"status": "success", "data": {"result": "no"}}),
        lambda _: web.json_response({"data": None}),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_problem_and_not_zero(answer):
    reading, _ = await read(answer)

    assert reading.engines == ()
    assert reading.latency is None
    assert len(reading.problems) == 1
    assert reading.problems[0].startswith("Prometheus: ")


async def test_a_server_that_hangs_costs_no_more_than_the_hard_limit():
    started_s = asyncio.get_running_loop().time()

    reading, _ = await read(hangs, timeout_s=0.3)

    assert "no answer" in reading.problems[0]
    assert asyncio.get_running_loop().time() - started_s < 30


async def test_auto_uses_prometheus_while_it_is_fresh_and_pods_when_it_is_not():
    server = Prometheus()
    async with (
        serving({"/api/v1/query": server}) as (prometheus_port, asked),
        serving({"/metrics": ENGINE_PAGE.replace("3", "8")}) as (engine_port, scraped),
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{prometheus_port}"
        allowed = replace(INSTALLATION, prometheus_urls=(url,))
        collector = Collector(session, servers=access(session, allowed))
        wanted = Metrics.model_validate({"source": "Auto", "prometheus": {"url": url}})
        pool = targets(engine_port=engine_port, routers=False)
        fresh = await collector.collect(pool, wanted, now_s=NOW_S)
        assert not scraped
        server.age_s = 300.0
        stale = await collector.collect(pool, wanted, now_s=NOW_S)

    assert (fresh.source, fresh.engines[0].running) == ("Prometheus", 3.0)
    assert (stale.source, stale.engines[0].running, stale.age_s) == ("Direct", 8.0, 0.0)
    assert (fresh.passed_over, "300 s old" in stale.passed_over) == (None, True)
    assert asked
    assert stale.ready == {"prefill": 1}


async def test_prometheus_alone_is_never_replaced_behind_the_users_back():
    async with (
        serving({"/api/v1/query": Prometheus(age_s=300.0)}) as (prometheus_port, _),
        serving({"/metrics": ENGINE_PAGE}) as (engine_port, scraped),
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{prometheus_port}"
        allowed = replace(INSTALLATION, prometheus_urls=(url,))
        collector = Collector(session, servers=access(session, allowed))
        wanted = Metrics.model_validate({"source": "Prometheus", "prometheus": {"url": url}})
        found = await collector.collect(
            targets(engine_port=engine_port, routers=False), wanted, now_s=NOW_S
        )

    assert found.engines == ()
    assert "300 s old" in found.problems[0]
    assert not scraped
