"""Engines that refuse, freeze, break off or lie: the client always gets an end."""

import asyncio
import json
from typing import Any, cast
from unittest.mock import create_autospec

import pytest
from aiohttp import web

from tandem_engine.router.accounting.traces import Traces
from tandem_engine.router.forwarding.client_stream import Client
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.forwarding.forward import Forwarder
from tandem_engine.router.forwarding.sink import AnswerSink, Sink
from tandem_engine.router.forwarding.tokenizers import Tokenizers
from tandem_engine.router.forwarding.upstream import UpstreamFailure
from tandem_engine.router.http.client_port import ClientServer
from tandem_engine.router.http.connections import listen
from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.prefill_answer import read_prefill_answer
from tandem_engine.router.openai.prefixes import PrefixMarks
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, events, settings_document, until

GARBAGE = [
    b"[1]",
    b"7",
    b'{"choices": 5}',
    b'{"choices": [null]}',
    b'{"choices": [{"index": 0, "text": "x"}], "usage": 3}',
    b'{"choices": [{"index": 0, "text": "x"}], "usage": {"completion_tokens": 1%s}}' % (b"0" * 400),
    b"[" * 5000 + b"]" * 5000,
]
GARBAGE_TO_ASSEMBLE = b'{"choices": [{"index": 0, "text": 5}]}'


async def raw_stream(port: int) -> bytes:
    """Return all bytes that a client gets for a streamed completion."""
    body = json.dumps({"model": "tiny", "prompt": "a b", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def test_decode_alone_serves_when_the_only_prefill_pod_refuses(bare_pool: Pool) -> None:
    await bare_pool.add_dead("p0")
    await bare_pool.add("d0")

    first = await bare_pool.stream()
    second = await bare_pool.stream()

    assert first[-1] == second[-1] == "[DONE]"
    assert "kv_transfer_params" not in bare_pool.engines["d0"].seen[0].body
    assert bare_pool.metric("tandem_router_decode_only_total", reason="prefill_failed") == 1
    assert bare_pool.metric("tandem_router_decode_only_total", reason="no_prefill") == 1


async def test_a_second_prefill_pod_is_tried_after_a_failure(pool: Pool) -> None:
    await pool.add("p1")
    pool.engines["p0"].script.statuses = [500]

    await pool.stream()

    assert len(pool.engines["p0"].seen) == len(pool.engines["p1"].seen) == 1
    assert pool.engines["d0"].seen[0].body["kv_transfer_params"]["remote_engine_id"] == "p1"
    assert pool.metric("tandem_router_retries_total", reason="status") == 1


async def test_prefill_is_tried_twice_at_most(pool: Pool) -> None:
    for name in ("p0", "p1", "p2"):
        engine = pool.engines.get(name) or await pool.add(name)
        engine.script.statuses = [500, 500]

    await pool.stream()

    assert sum(len(pool.engines[name].seen) for name in ("p0", "p1", "p2")) == 2
    assert pool.metric("tandem_router_decode_only_total", reason="prefill_failed") == 1


async def test_a_frozen_prefill_pod_costs_its_deadline_once_and_is_then_avoided(
    pool: Pool,
) -> None:
    # More than a machine stands still for: by then the pod must have read the request.
    pool.configure(timeouts={"prefill_s": 4.0})
    pool.engines["p0"].script.freeze = True

    await pool.stream()
    await pool.stream()

    assert len(pool.engines["p0"].seen) == 1
    assert pool.metric("tandem_router_decode_only_total", reason="prefill_timeout") == 1
    assert pool.metric("tandem_router_decode_only_total", reason="no_prefill") == 1


async def test_what_else_a_frozen_prefill_pod_has_goes_to_decode_alone_at_once(
    pool: Pool,
) -> None:
    pool.engines["p0"].script.freeze = True
    pool.configure(timeouts={"prefill_s": 3.0})
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)
    pool.configure(timeouts={"prefill_s": 60.0, "first_token_s": 60.0, "request_s": 60.0})
    others = [asyncio.create_task(pool.stream()) for _ in range(3)]
    await pool.engines["p0"].wait_seen(4)

    async with asyncio.timeout(60):
        answers = await asyncio.gather(first, *others)

    assert [answer[-1] for answer in answers] == ["[DONE]"] * 4
    assert pool.metric("tandem_router_decode_only_total", reason="prefill_timeout") == 4
    await pool.stream()
    assert pool.metric("tandem_router_decode_only_total", reason="no_prefill") == 1
    assert len(pool.engines["p0"].seen) == 4


async def test_a_slow_prefill_pod_keeps_its_queue(pool: Pool) -> None:
    pool.configure(timeouts={"prefill_s": 1.0}, limits={"prefill_requests_per_pod": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    slow = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)
    pool.configure(limits={"prefill_requests_per_pod": 1})
    queued = [asyncio.create_task(pool.stream()) for _ in range(3)]
    await pool.engines["p0"].wait_seen(2)
    gate.set()
    await asyncio.gather(slow, *queued)

    assert len(pool.engines["p0"].seen) == 4
    assert pool.metric("tandem_router_decode_only_total", reason="prefill_timeout") == 1
    assert pool.metric("tandem_router_decode_only_total", reason="no_prefill") is None


async def test_a_request_whose_own_time_ran_out_says_nothing_about_its_prefill_pod(
    pool: Pool,
) -> None:
    pool.configure(
        timeouts={"first_token_s": 6.0, "connect_s": 2.0, "prefill_s": 6.0},
        limits={"prefill_requests_per_pod": 1},
    )
    pool.engines["p0"].script.prefill_s = 3.8

    first, second = await asyncio.gather(pool.complete(), pool.complete())

    assert [first[0], second[0]] == [200, 200]
    assert pool.metric("tandem_router_decode_only_total", reason="prefill_timeout") == 1
    await asyncio.sleep(0.1)
    assert pool.engines["p0"].probes == 0


async def test_a_prefill_answer_without_kv_parameters_means_decode_alone(pool: Pool) -> None:
    pool.engines["p0"].script.kv = False

    await pool.stream()

    assert "kv_transfer_params" not in pool.engines["d0"].seen[0].body
    assert pool.metric("tandem_router_decode_only_total", reason="no_kv_params") == 1


async def test_a_refused_decode_connection_moves_the_kv_parameters_to_the_next_pod(
    pool: Pool,
) -> None:
    await pool.engines["d0"].stop()
    await pool.add("d1")

    await pool.stream()

    decode = pool.engines["d1"].seen[0]
    assert decode.body["kv_transfer_params"]["remote_engine_id"] == "p0"
    assert pool.metric("tandem_router_retries_total", reason="refused") == 1


async def test_kv_parameters_are_not_used_again_once_an_engine_may_have_pulled(
    pool: Pool,
) -> None:
    await pool.add("d1")
    pool.engines["d0"].script.cut_after = 0

    answer = await pool.stream()

    assert answer[-1] == "[DONE]"
    assert "kv_transfer_params" not in pool.engines["d1"].seen[0].body
    assert pool.metric("tandem_router_decode_only_total", reason="retry") == 1


async def test_decode_is_tried_twice_at_most(pool: Pool) -> None:
    for name in ("d0", "d1", "d2"):
        engine = pool.engines.get(name) or await pool.add(name)
        engine.script.statuses = [500, 500]

    status, answer = await pool.complete()

    assert status == 502
    assert answer["error"]["code"] == "upstream_error"
    assert sum(len(pool.engines[name].seen) for name in ("d0", "d1", "d2")) == 2
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 1
    assert pool.metric("tandem_router_blame_total", cause="error") == 1


@pytest.mark.parametrize(("status", "tries"), [(500, 2), (400, 1)])
async def test_an_error_whose_body_never_ends_is_known_by_its_status(
    pool: Pool, status: int, tries: int
) -> None:
    await pool.add("d1")
    for name in ("d0", "d1"):
        script = pool.engines[name].script
        script.statuses, script.error_never_ends = [status], True

    told, _ = await pool.complete()

    assert told == {500: 502, 400: 400}[status]
    assert sum(len(pool.engines[name].seen) for name in ("d0", "d1")) == tries


async def test_an_engine_at_its_limit_twice_becomes_503_with_retry_after(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [503, 503]

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})

    assert status == 503
    assert answer["error"]["code"] == "engine_busy"
    assert int(headers["Retry-After"]) >= 1
    assert pool.metric("tandem_router_requests_total", outcome="shed") == 1


@pytest.mark.parametrize(
    "script",
    [
        Script(cut_after=2),
        Script(end_after=2),
        Script(freeze_after=2),
        Script(garbage_after=2),
        Script(error_event_after=2),
    ],
    ids=["cut", "end", "freeze", "garbage", "error event"],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_a_stream_that_breaks_ends_with_an_error_event_and_is_not_tried_again(
    pool: Pool, script: Script, path: str
) -> None:
    pool.configure(timeouts={"idle_s": 1.5})
    await pool.add("d1")
    pool.engines["d0"].script = pool.engines["d1"].script = script

    answer = await pool.stream(path=path)

    await pool.idle()
    assert answer[-1] == "[DONE]"
    assert answer[-2]["error"]["type"] == "upstream_error"
    assert len(answer) == (5 if "chat" in path else 4)
    assert len(pool.engines["d0"].seen) + len(pool.engines["d1"].seen) == 1
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 1


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_an_event_of_the_wrong_shape_ends_a_stream_in_order(
    pool: Pool, garbage: bytes
) -> None:
    pool.engines["d0"].script = Script(garbage_after=2, garbage=garbage, continuous=False)

    answer = await raw_stream(pool.router.port)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert b'data: {"error": ' in answer
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 1


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_first_event_of_the_wrong_shape_is_tried_elsewhere(
    pool: Pool, garbage: bytes
) -> None:
    await pool.add("d1")
    pool.engines["d0"].script = Script(garbage_after=0, garbage=garbage, continuous=False)

    answer = await pool.stream()

    assert answer[-1] == "[DONE]"
    assert len(pool.engines["d1"].seen) == 1
    assert pool.metric("tandem_router_retries_total", reason="malformed") == 1


@pytest.mark.parametrize("garbage", [*GARBAGE, GARBAGE_TO_ASSEMBLE])
async def test_an_event_of_the_wrong_shape_is_no_part_of_a_whole_answer(
    pool: Pool, garbage: bytes
) -> None:
    pool.engines["d0"].script = Script(garbage_after=2, garbage=garbage, continuous=False)

    status, answer = await pool.complete()

    assert status == 502
    assert answer["error"]["code"] == "upstream_error"


async def test_what_is_no_json_is_no_whole_answer() -> None:
    settings = parse_settings(json.dumps(settings_document()))
    call = parse_call(EndpointKind.COMPLETIONS, b'{"model": "tiny", "prompt": "a"}', settings)
    client = create_autospec(Client, instance=True)
    sink = AnswerSink(client, call, {})
    sink.push([b'{"choices": [{"text": "x", "logprobs": {"token_logprobs": [NaN]}}]}'])

    with pytest.raises(UpstreamFailure):
        await sink.finish()

    client.end.assert_not_called()


@pytest.mark.parametrize("usage", [3, {"prompt_tokens": -1}, {"prompt_tokens": 10**400}])
async def test_a_prefill_answer_of_the_wrong_shape_means_another_try(
    pool: Pool, usage: Any
) -> None:
    await pool.add("p1")
    pool.engines["p0"].script.prefill_usage = usage

    await pool.stream()

    assert pool.engines["d0"].seen[0].body["kv_transfer_params"]["remote_engine_id"] == "p1"
    assert pool.metric("tandem_router_retries_total", reason="malformed") == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
async def test_kv_parameters_that_no_body_can_hold_are_no_fault_of_the_client(
    pool: Pool, value: float
) -> None:
    await pool.add("p1")
    pool.engines["p0"].script.kv_more = {"scale": value}

    status, _ = await pool.complete()

    assert status == 200
    assert pool.engines["d0"].seen[0].body["kv_transfer_params"]["remote_engine_id"] == "p1"


def test_a_number_beyond_all_others_is_no_prefill_answer() -> None:
    with pytest.raises(ValueError, match="1e999"):
        read_prefill_answer(EndpointKind.CHAT, b'{"kv_transfer_params": {"scale": 1e999}}')


class Breaks:
    """A forwarder with a fault that shows only once the answer has begun."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    async def serve(self, flight: Flight, sink: Sink) -> web.StreamResponse:
        await sink.send([b'{"choices": []}'])
        if self._whole:
            await sink.finish()
        raise LookupError("a fault of the router")


@pytest.mark.parametrize("whole", [False, True])
async def test_a_fault_of_the_router_never_puts_a_second_answer_into_the_first(
    pool: Pool, whole: bool
) -> None:
    router = pool.router
    server = ClientServer(
        fleet=router.fleet,
        forwarder=cast("Forwarder", Breaks(whole=whole)),
        tokenizers=cast("Tokenizers", None),
        accounts=router.accounts,
        settings=router.settings,
        prefixes=PrefixMarks(None),
        traces=Traces(router="tiny-router-0", count=router.accounts.metrics.spans),
        clock=asyncio.get_running_loop().time,
    )
    runner, port = await listen(server.handle, host="127.0.0.1", port=0, settings=lambda: None)

    answer = await raw_stream(port)

    assert answer.count(b"HTTP/1.1 ") == 1
    assert (b'data: {"error": ' in answer) is not whole
    assert answer.endswith(b"0\r\n\r\n")
    await runner.cleanup()


async def test_an_answer_not_streamed_that_breaks_is_an_error_and_never_half_an_answer(
    pool: Pool,
) -> None:
    pool.engines["d0"].script.cut_after = 2

    status, answer = await pool.complete()

    assert status == 502
    assert "choices" not in answer


async def test_an_engine_that_aborts_while_it_drains_is_left_for_another(pool: Pool) -> None:
    await pool.add("d1")
    pool.engines["d0"].script.abort = True

    answer = await pool.stream()

    assert answer[-1] == "[DONE]"
    assert len(pool.engines["d1"].seen) == 1
    assert pool.metric("tandem_router_retries_total", reason="aborted") == 1


async def test_no_first_token_in_time_is_504(pool: Pool) -> None:
    pool.configure(timeouts={"first_token_s": 1.5})
    pool.engines["d0"].script.freeze = True

    status, answer = await pool.complete()

    assert status == 504
    assert answer["error"]["code"] == "first_token_timeout"
    assert pool.metric("tandem_router_requests_total", outcome="failed") == 1


async def test_a_whole_request_has_a_deadline_too(pool: Pool) -> None:
    pool.configure(timeouts={"request_s": 0.3, "idle_s": 5.0})
    pool.engines["d0"].script = Script(tokens=1000, gap_s=0.05)

    answer = await pool.stream()

    assert answer[-2]["error"]["code"] == "idle_timeout"


async def test_a_client_that_leaves_during_prefill_frees_the_prefill_pod(pool: Pool) -> None:
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream())
    seen = await pool.engines["p0"].wait_seen(1)

    task.cancel()

    await asyncio.wait_for(seen.cancelled.wait(), 60)
    await pool.idle()
    assert pool.metric("tandem_router_requests_total", outcome="gone") == 1
    assert pool.metric("tandem_router_in_flight_requests", phase="prefill") == 0


async def test_a_client_that_leaves_in_mid_stream_frees_the_decode_pod(pool: Pool) -> None:
    pool.engines["d0"].script.freeze_after = 2
    body = {"model": "tiny", "prompt": "x", "stream": True}
    async with pool.client.post(pool.url + "/v1/completions", json=body) as response:
        async for _ in events(response):
            break

    seen = await pool.engines["d0"].wait_seen(1)
    await asyncio.wait_for(seen.cancelled.wait(), 60)
    await pool.idle()

    assert pool.metric("tandem_router_in_flight_requests", phase="decode") == 0


async def test_a_client_that_leaves_the_queue_leaves_no_trace_there(pool: Pool) -> None:
    pool.configure(limits={"prefill_requests_per_pod": 1})
    pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)
    second = asyncio.create_task(pool.stream())
    await until(lambda: pool.router.waiting.requests == 1)

    second.cancel()
    await until(lambda: pool.router.waiting.requests == 0)

    pool.engines["p0"].script.hold.set()
    assert (await first)[-1] == "[DONE]"
    await pool.idle()
    assert len(pool.engines["p0"].seen) == 1
