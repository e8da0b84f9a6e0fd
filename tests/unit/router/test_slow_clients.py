"""Clients that read slowly or not at all: their time is neither the engine's nor without end."""

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, until

# More than loopback's buffers hold.
LONG = Script(tokens=100, text="x" * 100_000)


async def ask(
    pool: Pool, path: str = "/v1/completions", **fields: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request; of the answer next to nothing is read before the reader is."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", pool.router.port))
    reader, writer = await asyncio.open_connection(sock=own, limit=4096)
    body = json.dumps({"model": "tiny", "prompt": "a b", **fields}).encode()
    writer.write(
        b"POST %b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body
    )
    return reader, writer


def outcome(pool: Pool, name: str) -> float | None:
    return pool.metric("tandem_router_requests_total", outcome=name)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_takes_nothing_is_given_up_and_no_pod_is_doubted(
    pool: Pool, stream: bool
) -> None:
    pool.configure(timeouts={"idle_s": 3.0, "connect_s": 1.0})
    pool.engines["d0"].script = LONG
    _, writer = await ask(pool, stream=stream)
    await pool.engines["d0"].wait_seen(1)

    await pool.idle()
    await asyncio.sleep(0.1)

    assert outcome(pool, "gone") == 1
    assert pool.engines["d0"].probes == 0
    assert pool.metric("tandem_router_in_flight_requests", phase="decode") == 0
    writer.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_takes_a_little_at_a_time_is_served(pool: Pool, stream: bool) -> None:
    pool.configure(timeouts={"idle_s": 1.5, "request_s": 280.0})
    pool.engines["d0"].script = LONG
    reader, writer = await ask(pool, stream=stream)

    answer = b""
    for _ in range(30):
        answer += await reader.read(1 << 16)
        await asyncio.sleep(0.1)
    answer += await reader.read()

    assert answer.count(b"x" * 100_000) == 100
    await pool.idle()
    assert outcome(pool, "good") == 1
    writer.close()


async def test_what_a_client_is_slow_to_take_is_no_slow_decode_step(pool: Pool) -> None:
    pool.configure(slo={"tpot_s": 0.2}, timeouts={"request_s": 280.0})
    pool.engines["d0"].script = Script(tokens=11, text="x" * 1_000_000)
    reader, writer = await ask(pool, stream=True)

    await asyncio.sleep(4)
    await reader.read()

    await pool.idle()
    assert outcome(pool, "late_tpot") == 0
    assert outcome(pool, "good") == 1
    writer.close()


@pytest.mark.parametrize("pool", [{"drain_timeout_s": 5.0}], indirect=True)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_takes_nothing_holds_up_no_drain(pool: Pool, stream: bool) -> None:
    pool.configure(timeouts={"idle_s": 60.0})
    pool.engines["d0"].script = LONG
    _, writer = await ask(pool, stream=stream)
    await pool.engines["d0"].wait_seen(1)
    if not stream:
        # Until then it is the engine that is waited for, and the request would have failed.
        await until(lambda: pool.engines["d0"].streams_ended == 1)

    async with asyncio.timeout(60):
        await pool.router.drain()

    assert outcome(pool, "gone") == 1
    writer.close()


async def test_a_pod_that_streamed_until_the_requests_deadline_is_not_doubted(pool: Pool) -> None:
    pool.configure(timeouts={"request_s": 3.0, "connect_s": 1.0})
    pool.engines["d0"].script = Script(tokens=1000, gap_s=0.01)

    answer = await pool.stream()

    assert answer[-2]["error"]["code"] == "idle_timeout"
    await asyncio.sleep(0.1)
    assert pool.engines["d0"].probes == 0
