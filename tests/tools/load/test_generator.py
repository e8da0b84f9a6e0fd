"""The generator against a small OpenAI-like server on loopback."""

import asyncio
import json
from dataclasses import replace

import pytest
from aiohttp import web

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import PlannedRequest
from benchmarks.load.record import Outcome, Record, read_records, tally
from tandem_operator.core.slo import Slo


def planned(number, *, at_s=0.0, output_tokens=3):
    return PlannedRequest(
        request_id=f"r-{number}", at_s=at_s, prompt_token_ids=(20, 21), output_tokens=output_tokens
    )


def event(payload):
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return f"data: {text}\n\n".encode()


class Server:
    """Answers by the request id's behaviour; remembers what it was asked."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.keys = []
        app = web.Application()
        app.router.add_post("/v1/completions", self.handle)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def handle(self, request):
        body = await request.json()
        self.asked.append((request.headers["X-Request-Id"], body))
        self.keys.append(request.headers.get("Authorization"))
        return await self.answer(self, request, body)

    async def __aenter__(self):
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()


async def stream(request, payloads):
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for payload in payloads:
        await response.write(event(payload))
    return response


def token(text="a"):
    return {"choices": [{"index": 0, "text": text}]}


async def load(answer, requests, **options):
    async with (
        Server(answer) as server,
        LoadGenerator(url=server.url, model="tiny", **options) as generator,
    ):
        return server, await generator.run(requests, traffic="t")


async def test_a_finished_request_has_both_latencies_and_the_engines_token_count():
    async def answer(_, request, body):
        usage = {"choices": [], "usage": {"completion_tokens": body["max_tokens"]}}
        return await stream(request, [token(), token(""), usage, "[DONE]"])

    server, [record] = await load(answer, [planned(1, output_tokens=5)])

    assert record.outcome is Outcome.FINISHED
    assert record.output_tokens == 5
    assert 0 < record.ttft_s <= record.elapsed_s
    assert record.tpot_s >= 0
    request_id, body = server.asked[0]
    assert request_id == "r-1"
    assert body["prompt"] == [20, 21]
    assert body["stream"] is True


async def test_the_tokens_of_an_answer_are_kept_on_request_streamed_or_not():
    async def answer(_, request, body):
        if not body.get("stream"):
            choice = {"index": 0, "text": "ab", "token_ids": [7, 8]}
            return web.json_response({"choices": [choice], "usage": {"completion_tokens": 2}})
        chunks = [{"choices": [{"index": 0, "text": "a", "token_ids": [n]}]} for n in (7, 8)]
        return await stream(request, [*chunks, "[DONE]"])

    wanted = [
        replace(planned(n), streamed=n == 1, cache_salt="s", wants_token_ids=True) for n in (1, 2)
    ]
    server, records = await load(answer, [*wanted, planned(3)])

    assert [record.token_ids for record in records] == [(7, 8), (7, 8), None]
    assert all(record.outcome is Outcome.FINISHED for record in records)
    bodies = dict(server.asked)
    assert bodies["r-1"]["return_token_ids"] is True
    assert bodies["r-1"]["cache_salt"] == "s"
    assert "stream" not in bodies["r-2"]
    assert "cache_salt" not in bodies["r-3"]
    assert Record.from_json(records[0].to_json()) == records[0]


@pytest.mark.parametrize(("key", "sent"), [("secret", "Bearer secret"), (None, None)])
async def test_a_key_goes_with_each_request_where_there_is_one(key, sent):
    async def answer(_, request, __):
        return await stream(request, [token(), "[DONE]"])

    server, _ = await load(answer, [planned(1)], api_key=key)

    assert server.keys == [sent]


async def test_later_requests_do_not_wait_for_earlier_answers():
    async def answer(server, request, _):
        if len(server.asked) == 3:
            server.all_came.set()
        await server.all_came.wait()
        return await stream(request, [token(), "[DONE]"])

    async with Server(answer) as server:
        server.all_came = asyncio.Event()
        async with LoadGenerator(url=server.url, model="tiny", timeout_s=60) as generator:
            records = await generator.run([planned(n) for n in range(3)], traffic="t")

    assert [record.outcome for record in records] == [Outcome.FINISHED] * 3


async def test_a_stream_without_its_end_is_a_failure_that_says_so():
    async def answer(_, request, __):
        return await stream(request, [token()])

    _, [record] = await load(answer, [planned(1)])

    assert record.outcome is Outcome.FAILED
    assert "[DONE]" in record.why
    assert record.ttft_s is not None


async def test_an_error_inside_the_stream_is_a_failure_with_its_text():
    async def answer(_, request, __):
        return await stream(request, [token(), {"error": {"message": "decode pod went away"}}])

    _, [record] = await load(answer, [planned(1)])

    assert record.outcome is Outcome.FAILED
    assert "decode pod went away" in record.why


async def test_a_request_that_never_ends_is_given_up_and_counted_as_failed():
    async def answer(_, request, __):
        await asyncio.Event().wait()

    _, [record] = await load(answer, [planned(1)], timeout_s=0.2)

    assert record.outcome is Outcome.FAILED
    assert record.why == "no end within 0.2 s"


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (503, {"Retry-After": "1"}, Outcome.SHED),
        (429, {"Retry-After": "1"}, Outcome.SHED),
        (503, {}, Outcome.FAILED),
        (500, {"Retry-After": "1"}, Outcome.FAILED),
    ],
)
async def test_only_a_refusal_that_says_when_to_come_back_is_shed(status, headers, outcome):
    async def answer(*_):
        error = {"error": {"message": "too much"}}
        return web.json_response(error, status=status, headers=headers)

    _, [record] = await load(answer, [planned(1)])

    assert record.outcome is outcome
    assert record.why == f"HTTP {status}: too much"


async def test_a_closed_port_is_a_failure_not_a_crash():
    async with LoadGenerator(url="http://127.0.0.1:9", model="tiny") as generator:
        [record] = await generator.run([planned(1)], traffic="t")

    assert record.outcome is Outcome.FAILED
    assert record.status is None


async def test_the_record_file_reads_back_as_what_was_returned(tmp_path):
    async def answer(_, request, __):
        return await stream(request, [token(), token(), "[DONE]"])

    path = tmp_path / "deep" / "records.jsonl"
    _, records = await load(answer, [planned(n) for n in range(4)], record_path=path)

    assert sorted(read_records(path), key=lambda record: record.request_id) == records


def record(**changes):
    fields = {
        "request_id": "r",
        "traffic": "t",
        "sent_s": 0.0,
        "late_s": 0.0,
        "elapsed_s": 1.0,
        "prompt_tokens": 1000,
        "output_tokens": 10,
        "outcome": Outcome.FINISHED,
        "ttft_s": 0.5,
        "tpot_s": 0.02,
    }
    return Record(**{**fields, **changes})


def test_a_request_is_good_only_inside_both_bounds_and_a_longer_prompt_may_take_longer():
    slo = Slo(ttft_s=0.4, ttft_s_per_thousand_prompt_tokens=0.1, tpot_s=0.02, attainment=0.9)

    assert record().is_good(slo)
    assert record(tpot_s=None, output_tokens=1).is_good(slo)
    assert not record(prompt_tokens=900).is_good(slo)
    assert not record(tpot_s=0.021).is_good(slo)
    assert not record(ttft_s=None).is_good(slo)
    assert not record(outcome=Outcome.FAILED).is_good(slo)


def test_a_tally_of_nothing_knows_nothing():
    figures = tally([])

    assert figures.attainment is None
    assert figures.ttft_p95_s is None


def test_failed_and_shed_requests_count_against_attainment():
    slo = Slo(ttft_s=1.0, ttft_s_per_thousand_prompt_tokens=0.0, tpot_s=0.1, attainment=0.9)
    lost = {"ttft_s": None, "tpot_s": None}
    records = [
        record(),
        record(ttft_s=1.5),
        record(outcome=Outcome.FAILED, why="broke", **lost),
        record(outcome=Outcome.SHED, why="HTTP 503: full", **lost),
    ]

    figures = tally([(one, slo) for one in records])

    assert (figures.requests, figures.good, figures.failed, figures.shed) == (4, 1, 1, 1)
    assert figures.attainment == 0.25
    assert figures.ttft_p50_s == 1.0
    assert figures.why == {"broke": 1, "HTTP 503: full": 1}
