import asyncio
import json
from dataclasses import asdict

import aiohttp
import pytest
from aiohttp import web

from tandem_engine.serve import served_shape as engine_shape
from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.core.observation import Hardware, ModelShape, StartUp
from tandem_operator.core.role import Role
from tandem_operator.metrics import direct, fetch
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.direct import DirectSource
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tandem_operator.metrics.start_up import parse_start_up
from tests.unit.metrics.servers import access, serving
from tests.unit.metrics.test_arrivals import REPORT

ENGINE_PAGE = "vllm:num_requests_running 3\nvllm:num_requests_waiting 1\n"


def histogram(name, *counts):
    edges = ("0.1", "0.2", "+Inf")
    return "".join(
        f'{name}_bucket{{le="{edge}"}} {count}\n' for edge, count in zip(edges, counts, strict=True)
    )


def router_page(*counts):
    return histogram("tandem_router_ttft_seconds", *counts) + histogram(
        "tandem_router_tpot_seconds", *counts
    )


def targets(*, engine=None, router=None, control=8001):
    return Targets(
        namespace="ns",
        pool="tiny",
        engines=(EngineTarget("e-1", Role.DECODE, "127.0.0.1", engine, control),) if engine else (),
        routers=(RouterTarget("r-1", "127.0.0.1", router),) if router else (),
    )


@pytest.fixture
async def source(monkeypatch):
    """A source with all the time that a busy machine needs for an answer."""
    monkeypatch.setattr(direct, "START_UP_TIMEOUT_S", 60.0)
    async with aiohttp.ClientSession() as session:
        yield DirectSource(session, timeout_s=60.0)


@pytest.fixture
async def impatient():
    async with aiohttp.ClientSession() as session:
        yield DirectSource(session, timeout_s=2.0)


async def test_reads_an_engine(source):
    async with serving({"/metrics": ENGINE_PAGE}) as (port, _):
        reading = await source.read(targets(engine=port), now_s=7.0)

    assert [(e.pod, e.running, e.sampled_s) for e in reading.engines] == [("e-1", 3.0, 7.0)]
    assert reading.oldest_s(now_s=9.0) == 2.0
    assert reading.problems == ()


INFO = {
    "role": "decode",
    "measured": {
        "prefill": [],
        "decode_steps": [{"batch": 16, "seconds": 0.02}, {"batch": 1, "seconds": 0.01}],
        "requests": 68,
    },
}


async def test_asks_an_engine_once_what_it_measured_of_itself(source):
    async with serving({"/info": json.dumps(INFO)}) as (port, seen):
        first = dict(await source.start_ups(targets(engine=9, control=port)))
        again = await source.start_ups(targets(engine=9, control=port))

    assert first == again == {"e-1": StartUp(steps=((1.0, 0.01), (16.0, 0.02)))}
    assert len(seen) == 1


SHAPE = {
    "weight_bytes": 1.5e10,
    "kv_bytes_per_token": 131072,
    "flops_per_token": 1.4e10,
    "attention_flops": 524288,
    "compute_bits": 16,
}


async def test_hears_what_model_and_hardware_an_engine_has(source):
    info = INFO | {"shape": SHAPE, "device": "NVIDIA H100 80GB HBM3", "devices": 2}
    async with serving({"/info": json.dumps(info)}) as (port, _):
        found = (await source.start_ups(targets(engine=9, control=port)))["e-1"]

    assert found.shape == ModelShape(**SHAPE)
    assert found.hardware == Hardware("NVIDIA H100 80GB HBM3", 2)
    assert len(found.steps) == 2


def test_an_engine_and_the_operator_mean_the_same_by_a_shape():
    told = engine_shape.ServedShape(1.5e10, 131072.0, 1.4e10, 524288.0, 16)

    shape = parse_start_up(json.dumps({"shape": asdict(told)}).encode()).shape

    assert shape is not None
    assert asdict(shape) == asdict(told)


@pytest.mark.parametrize(
    "told",
    [
        {"shape": None, "device": None, "devices": 1},
        {"shape": SHAPE | {"weight_bytes": 0}, "device": ["H100"]},
        {"shape": "large", "device": "x" * 5000},
        {"shape": {"weight_bytes": 1e10}, "devices": 4},
    ],
)
async def test_nonsense_about_model_or_hardware_costs_no_measurement(source, told):
    async with serving({"/info": json.dumps(INFO | told)}) as (port, _):
        found = await source.start_ups(targets(engine=9, control=port))

    assert found == {"e-1": StartUp(steps=((1.0, 0.01), (16.0, 0.02)))}


@pytest.mark.parametrize(
    "measured",
    [
        None,
        {"decode_steps": [{"batch": 1, "seconds": -1}]},
        {"prefill": "quick"},
        {"decode_steps": [{"batch": 10**400, "seconds": 1}]},
    ],
)
async def test_an_engine_that_measured_nothing_of_use_is_not_asked_again(source, measured):
    page = json.dumps({"role": "decode", "measured": measured})
    async with serving({"/info": page}) as (port, seen):
        for _ in range(3):
            found = await source.start_ups(targets(engine=9, control=port))

    assert found == {"e-1": StartUp()}
    assert len(seen) == 1


async def test_an_engine_with_a_hanging_control_port_delays_no_other_read(source, monkeypatch):
    monkeypatch.setattr(direct, "START_UP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(source, "_timeout_s", 600.0)
    async with serving({"/info": hangs}) as (port, _), asyncio.timeout(60.0):
        assert await source.start_ups(targets(engine=9, control=port)) == {}


async def test_what_an_engine_measured_comes_with_its_load():
    async with (
        serving({"/metrics": ENGINE_PAGE}) as (port, _),
        serving({"/info": json.dumps(INFO)}) as (control, _),
        aiohttp.ClientSession() as session,
    ):
        collector = Collector(session, servers=access(session))
        found = await collector.collect(targets(engine=port, control=control), Metrics(), now_s=7.0)

    [engine] = found.engines
    assert (engine.running, engine.start_up.steps) == (3.0, ((1.0, 0.01), (16.0, 0.02)))


async def test_an_engine_that_does_not_answer_is_asked_a_few_times_and_then_left_alone(source):
    async with serving({"/info": lambda _: web.Response(status=503)}) as (port, seen):
        for _ in range(direct.START_UP_ASKED + 3):
            assert await source.start_ups(targets(engine=9, control=port)) == {}
        source.forget(namespace="ns", pool="tiny")
        await source.start_ups(targets(engine=9, control=port))

    assert len(seen) == direct.START_UP_ASKED + 1


async def test_what_a_pod_that_is_gone_measured_is_forgotten(source):
    async with serving({"/info": json.dumps(INFO)}) as (port, seen):
        await source.start_ups(targets(engine=9, control=port))
        assert await source.start_ups(targets()) == {}
        await source.start_ups(targets(engine=9, control=port))

    assert len(seen) == 2


async def test_of_a_routers_page_only_the_window_is_asked_for(source):
    asked = []

    def page(request):
        asked.append(request.query.getall("name[]"))
        return router_page(0, 10, 10)

    async with serving({"/metrics": page}) as (port, _):
        await source.latency(targets(router=port), now_s=7.0)

    assert asked == [["tandem_router_ttft_seconds_bucket", "tandem_router_tpot_seconds_bucket"]]


async def test_reads_arrivals_and_names_them_after_the_pod(source):
    async with serving({"/arrivals": json.dumps(REPORT)}) as (port, _):
        reports, problems = await source.reports(targets(router=port), now_s=1100.2)

    assert reports[0].router == "r-1"
    assert reports[0].arrivals
    assert problems == ()


async def test_what_a_router_told_before_its_pod_went_is_still_told():
    async with (
        serving({"/arrivals": json.dumps(REPORT)}) as (port, _),
        aiohttp.ClientSession() as session,
    ):
        collector = Collector(session, servers=access(session))
        before = await collector.collect(targets(router=port), Metrics(), now_s=1100.2)
        after = await collector.collect(targets(), Metrics(), now_s=1105.2)
        collector.forget(namespace="ns", pool="tiny")
        forgotten = await collector.collect(targets(), Metrics(), now_s=1110.2)

    assert [each.ended for each in (*before.routers, *after.routers)] == [False, True]
    assert after.routers[0].arrivals == before.routers[0].arrivals
    assert forgotten.routers == ()


async def hangs(_request):
    await asyncio.sleep(30)


async def trickles(request):
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"#\n")
        await asyncio.sleep(0.05)


def redirects(_request):
    raise web.HTTPFound("http://127.0.0.1:1/metrics")


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (redirects, "HTTP 302"),
        (lambda _: web.Response(status=503), "HTTP 503"),
        ("vllm:num_requests_running 3\n", "shows no load"),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n", "shows no load"),
    ],
)
async def test_an_engine_that_cannot_be_read_is_named_and_not_zero(source, page, said):
    async with serving({"/metrics": page}) as (port, _):
        reading = await source.read(targets(engine=port), now_s=7.0)

    assert reading.engines == ()
    assert reading.oldest_s(now_s=7.0) is None
    assert said in reading.problems[0]
    assert "e-1" in reading.problems[0]


@pytest.mark.parametrize("page", [hangs, trickles])
async def test_an_engine_that_does_not_answer_in_time_is_named_and_not_zero(impatient, page):
    async with serving({"/metrics": page}) as (port, _):
        reading = await impatient.read(targets(engine=port), now_s=7.0)

    assert reading.engines == ()
    assert reading.oldest_s(now_s=7.0) is None
    assert "e-1: no answer from /metrics in 2 s" in reading.problems[0]


async def test_a_refused_connection_is_named(source):
    async with serving({}) as (port, _):
        pass

    reading = await source.read(targets(engine=port), now_s=7.0)

    assert reading.engines == ()
    assert "e-1: ClientConnectorError" in reading.problems[0]


async def test_a_page_without_end_is_cut_off(source, monkeypatch):
    monkeypatch.setattr(fetch, "PAGE_LIMIT_BYTES", 1000)
    async with serving({"/metrics": "#" * 5000}) as (port, _):
        reading = await source.read(targets(engine=port), now_s=7.0)

    assert "larger than 1000 B" in reading.problems[0]


async def test_one_silent_router_leaves_the_other_reports(impatient):
    async with (
        serving({"/arrivals": json.dumps(REPORT)}) as (good, _),
        serving({"/arrivals": hangs}) as (silent, _),
    ):
        both = Targets(
            namespace="ns",
            pool="tiny",
            engines=(),
            routers=(RouterTarget("a", "127.0.0.1", good), RouterTarget("b", "127.0.0.1", silent)),
        )
        reports, problems = await impatient.reports(both, now_s=1100.2)

    assert len(reports) == 1
    assert problems == ("b: no answer from /arrivals in 2 s",)


async def test_latency_is_that_of_the_window_and_not_of_all_time(source):
    pages = iter([router_page(1000, 1000, 1000), router_page(1000, 1010, 1010)])
    async with serving({"/metrics": lambda _: next(pages)}) as (port, _):
        first = await source.read(targets(router=port), now_s=100.0)
        second = await source.read(targets(router=port), now_s=110.0)

    assert first.latency is None
    assert second.latency.ttft.p50_s == pytest.approx(0.15)


async def test_latency_is_unknown_after_the_router_restarted(source):
    pages = iter([router_page(10, 10, 10), router_page(0, 2, 2), router_page(0, 4, 4)])
    async with serving({"/metrics": lambda _: next(pages)}) as (port, _):
        readings = [await source.read(targets(router=port), now_s=at) for at in (1.0, 2.0, 3.0)]

    assert readings[1].latency is None
    assert readings[2].latency.tpot.p50_s == pytest.approx(0.15)


async def test_latency_is_unknown_when_one_router_is_silent(source):
    async with serving({"/metrics": router_page(1, 2, 3)}) as (good, _):
        both = Targets(
            namespace="ns",
            pool="tiny",
            engines=(),
            routers=(RouterTarget("a", "127.0.0.1", good), RouterTarget("b", "127.0.0.1", 1)),
        )
        await source.read(both, now_s=1.0)
        reading = await source.read(both, now_s=2.0)

    assert reading.latency is None
    assert "b: " in reading.problems[0]
