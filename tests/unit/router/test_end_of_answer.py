"""The last events of an answer leave with its end: one end, whole, and no engine's silence."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.unit.router.fake_engine import FakeEngine, Seen
from tests.unit.router.pool import Pool
from tests.unit.router.test_slow_clients import ask, outcome

# More than loopback's buffers hold.
LARGE = "x" * 3_500_000
END = b"data: [DONE]\n\n\r\n0\r\n\r\n"
SILENT_S = 2.0


def in_one_piece(text: Any) -> Callable[..., Any]:
    """Return the answer of an engine that writes its only event and its end together."""

    async def answer(
        engine: FakeEngine, request: web.Request, seen: Seen, *, chat: bool
    ) -> web.StreamResponse:
        made = 0 if seen.body.get("max_tokens") == 0 else 1
        event = {
            "id": "c",
            "object": "text_completion",
            "created": 1,
            "model": "tiny",
            "choices": [{"index": 0, "text": text, "finish_reason": "length", "logprobs": None}],
            "usage": {"prompt_tokens": 2, "completion_tokens": made, "total_tokens": 2 + made},
        }
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n")
        return response

    return answer


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until nothing does."""
    got = b""
    while True:
        try:
            data = await asyncio.wait_for(reader.read(1 << 18), SILENT_S)
        except TimeoutError:
            return got
        if not data:
            return got
        got += data


async def test_an_answer_ends_once_though_the_router_stops_while_the_client_reads_it(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeEngine, "_stream", in_one_piece(LARGE))
    reader, writer = await ask(pool, stream=True)
    await pool.engines["d0"].wait_seen(1)
    await asyncio.sleep(1.0)

    pool.router.clients.stop_requests()
    got = await rest(reader)
    writer.close()

    assert got.endswith(END)
    assert got.count(b"0\r\n\r\n") == 1


async def test_a_slow_reader_of_an_answer_without_a_token_is_no_silence_of_a_pod(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeEngine, "_stream", in_one_piece(LARGE))
    pool.configure(timeouts={"first_token_s": 1.0, "idle_s": 60.0, "connect_s": 1.0})
    reader, writer = await ask(pool, stream=True, max_tokens=0, echo=True)
    await pool.engines["d0"].wait_seen(1)
    await asyncio.sleep(1.5)

    got = await rest(reader)
    writer.close()
    await pool.idle()

    assert got.endswith(END)
    assert pool.engines["d0"].probes == 0
    assert outcome(pool, "good") == 1


async def test_a_last_event_that_is_malformed_is_no_token_of_a_document(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeEngine, "_stream", in_one_piece(["no string"]))

    status, _ = await pool.complete()

    assert status == 502
    assert not pool.metric("tandem_router_ttft_seconds_count")
    prefill = pool.router.fleet.find("p0")
    assert prefill is not None
    assert not prefill.health.well_with
