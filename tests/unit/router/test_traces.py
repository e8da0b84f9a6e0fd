"""Spans of requests, as a collector gets them over OTLP."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from tandem_engine.router.accounting.span_export import (
    LARGEST_ANSWER_BYTES,
    TOLD_EVERY_S,
    BoundedSession,
    CountingExporter,
)
from tandem_engine.router.accounting.traces import RequestTrace
from tandem_routing.verdict import Outcome, Timeline, Verdict
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, events, until

TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SPANS = "tandem_router_trace_spans_total"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CLIENT_SPAN}-01", f"00-{TRACE}-{CLIENT_SPAN}-00"


class Collector:
    """Takes spans, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        self.server = TestServer(app)

    async def _take(self, request: web.Request) -> web.Response:
        given = ExportTraceServiceRequest.FromString(await request.read())
        for resource in given.resource_spans:
            self.services.add(attributes(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return web.Response()


def attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in found}


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    made = Collector()
    await made.server.start_server()
    yield made
    await made.server.close()


async def traced(pool: Pool, collector: Collector) -> None:
    """Put tracing in force, and wait until requests get spans."""
    url = str(collector.server.make_url("/"))
    pool.configure(tracing={"endpoint": url, "sampling_ratio": 1.0})
    while not collector.spans:
        await pool.stream([5] * 30)
        await asyncio.sleep(0.05)
    await pool.idle()


async def asked(pool: Pool, request_id: str, **headers: str) -> int:
    body = {"model": "tiny", "prompt": "a secret", "stream": True}
    url = pool.url + "/v1/completions"
    headers["X-Request-Id"] = request_id
    async with pool.client.post(url, json=body, headers=headers) as response:
        if response.status == 200:
            _ = [event async for event in events(response)]
        return response.status


async def trace_of(collector: Collector, request_id: str) -> tuple[Span, list[Span]]:
    """Return the span of a request, once it was sent, and those below it."""

    def found() -> list[Span]:
        return [
            span
            for span in collector.spans
            if attributes(span.attributes).get("tandem.request_id") == request_id
        ]

    await until(lambda: bool(found()))
    (whole,) = found()
    return whole, [span for span in collector.spans if span.parent_span_id == whole.span_id]


async def test_a_request_is_a_span_below_its_clients_and_above_its_engines(
    pool: Pool, collector: Collector
) -> None:
    await traced(pool, collector)
    pool.engines["d0"].script = Script(tokens=5, gap_s=0.02, first_token_s=0.02)
    pool.engines["p0"].script.prefill_s = 0.02

    await asked(pool, "find-me", traceparent=SAMPLED)
    whole, parts = await trace_of(collector, "find-me")

    assert collector.services == {"tandem-router"}
    assert whole.kind == Span.SPAN_KIND_SERVER
    assert whole.name == "text_completion tiny"
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, CLIENT_SPAN)
    told = attributes(whole.attributes)
    assert told["gen_ai.operation.name"] == "text_completion"
    assert told["gen_ai.usage.output_tokens"] == 5
    assert told["tandem.outcome"] == "good"
    assert (told["tandem.prefill_pod"], told["tandem.decode_pod"]) == ("p0", "d0")
    assert "decode" in {span.name for span in parts}
    for part in parts:
        assert whole.start_time_unix_nano <= part.start_time_unix_nano
        assert part.end_time_unix_nano <= whole.end_time_unix_nano
    for engine in pool.engines.values():
        sent = engine.seen[-1].headers["traceparent"]
        assert sent == f"00-{TRACE}-{whole.span_id.hex()}-01"
    assert "secret" not in str(collector.spans)


async def test_the_parts_before_a_first_token_sum_to_its_time(
    pool: Pool, collector: Collector
) -> None:
    await traced(pool, collector)
    pool.engines["p0"].script.prefill_s = 0.05

    await asked(pool, "find-me")
    whole, parts = await trace_of(collector, "find-me")

    before = [span for span in parts if span.name != "decode"]
    took_ns = sum(span.end_time_unix_nano - span.start_time_unix_nano for span in before)
    ttft_s = attributes(whole.attributes)["tandem.ttft_s"]
    assert took_ns / 1e9 == pytest.approx(ttft_s, abs=1e-5)
    assert ttft_s >= 0.05


async def test_a_client_that_samples_nothing_gets_no_span_and_its_engines_neither(
    pool: Pool, collector: Collector
) -> None:
    await traced(pool, collector)

    await asked(pool, "unseen", traceparent=UNSAMPLED)
    sent = [engine.seen[-1].headers["traceparent"] for engine in pool.engines.values()]
    await asked(pool, "seen")
    await trace_of(collector, "seen")

    assert all(each.startswith(f"00-{TRACE}-") and each.endswith("-00") for each in sent)
    assert TRACE not in {span.trace_id.hex() for span in collector.spans}


async def test_a_request_that_fails_is_an_error(pool: Pool, collector: Collector) -> None:
    await traced(pool, collector)
    for engine in pool.engines.values():
        engine.script = Script(statuses=[500] * 9)

    assert await asked(pool, "find-me") != 200
    whole, _ = await trace_of(collector, "find-me")

    assert whole.status.code == Status.STATUS_CODE_ERROR
    assert attributes(whole.attributes)["error.type"] == "failed"


async def test_a_collector_that_is_away_costs_no_request(pool: Pool) -> None:
    pool.configure(tracing={"endpoint": "http://127.0.0.1:9", "sampling_ratio": 1.0})

    assert [await asked(pool, f"{number}") for number in range(5)] == [200] * 5


@pytest.mark.parametrize(
    ("elsewhere", "why"), [(False, "ConnectionError"), (True, "HTTP 307"), (None, "HTTP 503")]
)
async def test_spans_that_no_collector_took_are_counted_and_told_once(
    pool: Pool,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
    elsewhere: bool | None,
    why: str,
) -> None:
    async def refuses(_: web.Request) -> web.Response:
        if elsewhere:
            raise web.HTTPTemporaryRedirect(str(collector.server.make_url("/v1/traces")))
        return web.Response(status=503, reason="SECRET", headers={"Retry-After": "600"})

    app = web.Application()
    app.router.add_post("/v1/traces", refuses)
    async with TestServer(app) as server:
        url = "http://127.0.0.1:9" if elsewhere is False else str(server.make_url("/"))
        pool.configure(tracing={"endpoint": url, "sampling_ratio": 1.0})
        while (pool.metric(SPANS, result="lost") or 0.0) < 3:
            assert await asked(pool, "one") == 200
            await asyncio.sleep(0.01)

    told = [record for record in caplog.records if record.message == "traces lost"]
    assert [(each.why, each.endpoint) for each in told] == [(why, url)]
    assert collector.spans == []
    assert not any("SECRET" in str(record.__dict__) for record in caplog.records)


def test_each_line_of_lost_spans_tells_those_that_none_before_it_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = iter((0.0, 1.0, TOLD_EVERY_S + 1.0))
    counted: list[tuple[str, int]] = []
    exporter = CountingExporter(
        "http://127.0.0.1:9",
        count=lambda what, spans: counted.append((what, spans)),
        clock=lambda: next(clock),
    )
    span = TracerProvider().get_tracer("any").start_span("any")
    assert isinstance(span, ReadableSpan)

    for _ in range(3):
        exporter.export([span, span])

    assert counted == [("lost", 2)] * 3
    told = [record for record in caplog.records if record.message == "traces lost"]
    assert [vars(each)["spans"] for each in told] == [2, 4]


async def test_spans_that_a_collector_took_are_counted(pool: Pool, collector: Collector) -> None:
    await traced(pool, collector)

    await until(lambda: pool.metric(SPANS, result="sent"))
    assert pool.metric(SPANS, result="lost") is None


async def test_without_tracing_the_clients_own_context_is_passed_on(pool: Pool) -> None:
    await asked(pool, "mine", traceparent=SAMPLED)

    assert {engine.seen[-1].headers["traceparent"] for engine in pool.engines.values()} == {SAMPLED}


async def test_an_edit_that_ends_tracing_holds_for_the_next_request(
    pool: Pool, collector: Collector
) -> None:
    await traced(pool, collector)
    pool.configure(tracing=None)

    await asked(pool, "find-me", traceparent=SAMPLED)

    assert {engine.seen[-1].headers["traceparent"] for engine in pool.engines.values()} == {SAMPLED}


async def test_nothing_that_a_client_sends_in_its_trace_headers_reaches_the_log_or_an_engine(
    pool: Pool, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    await traced(pool, collector)
    caplog.set_level("DEBUG")
    hostile = {"traceparent": SAMPLED, "tracestate": "SECRET words=x"}

    await asked(pool, "one", **hostile)
    await asked(pool, "two", traceparent=f"00-{'0' * 32}-SECRET-01", tracestate="SECRET=1")

    assert "SECRET" not in "\n".join(str(record.__dict__) for record in caplog.records)
    for engine in pool.engines.values():
        for seen in engine.seen[-2:]:
            assert "SECRET" not in str(dict(seen.headers))


async def test_little_is_read_of_what_a_collector_answers() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b"x" * 65536)
        return response

    app = web.Application()
    app.router.add_post("/v1/traces", endless)
    async with TestServer(app) as server:
        url = str(server.make_url("/v1/traces"))
        session = BoundedSession()
        answer = await asyncio.to_thread(session.post, url, data=b"", timeout=60)

    assert len(answer.content) == LARGEST_ANSWER_BYTES


class _Noted:
    """Stands for a span and for the packages that would send it."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def headers_of(self, _: object) -> dict[str, str]:
        return {}

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, _: object) -> None:
        pass

    def part(self, _: object, name: str, *, begin_ns: int, end_ns: int) -> None:
        assert begin_ns <= end_ns, name
        self.ends.append(end_ns)

    def end(self, end_ns: int) -> None:
        self.ends.append(end_ns)


def test_the_last_token_is_never_after_the_end_of_its_request() -> None:
    chance = random.Random(1)
    for _ in range(200):
        received_s = chance.uniform(1.0, 1e5)
        ended_s = received_s + chance.uniform(0.001, 100.0)
        timeline = Timeline(received_s=received_s, first_token_s=received_s, last_token_s=ended_s)
        verdict = Verdict(Outcome.GOOD, 0.0, None, 1.0, 1.0, False, False, {}, 0.0)
        noted = _Noted()
        trace = RequestTrace(
            cast("Any", noted), cast("Any", noted), began_s=chance.uniform(1.79e9, 1.8e9)
        )

        trace.end(verdict, timeline, defaultdict(lambda: None, duration_s=ended_s - received_s))

        assert max(noted.ends) == noted.ends[-1]
