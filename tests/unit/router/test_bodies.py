"""Bodies that do not come, come slowly, or are too many or too large together."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator

import pytest

from tandem_engine.router.http.bodies import LEAST_BYTES_PER_S
from tests.unit.router.pool import Pool, until

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
GIVEN_UP_S = 9.0
"""Less than the time that a body has unless the settings say otherwise."""
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def senders(pool: Pool, count: int, begun: bytes = b"{") -> AsyncIterator[list[Ends]]:
    """Begin so many requests whose bodies do not go on."""
    ends = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
        writer.write(HEAD % 4_000_000 + begun)
        ends.append((reader, writer))
    await until(lambda: pool.router.clients.bodies.sending == count)
    yield ends
    for _, writer in ends:
        writer.close()


async def test_bodies_that_never_come_block_no_request(pool: Pool) -> None:
    pool.configure(limits={"concurrent_requests": 50})
    async with senders(pool, 50):
        answers = await asyncio.gather(*(pool.complete() for _ in range(20)))

    assert [status for status, _ in answers] == [200] * 20


async def test_the_slowest_body_is_refused_for_a_later_one_and_its_client_can_retry(
    pool: Pool,
) -> None:
    pool.configure(limits={"concurrent_requests": 2})
    async with senders(pool, 1, b"x" * 60_000) as fast, one_more(pool) as (slow, newcomer):
        reader, _ = slow
        answer = await asyncio.wait_for(reader.readuntil(b"}}"), 60)

        assert b" 503 " in answer.split(b"\r\n")[0]
        assert b"Retry-After: 1" in answer
        assert b'"code": "too_many_bodies"' in answer
        assert not fast[0][0].at_eof()
        assert not newcomer[0].at_eof()


@contextlib.asynccontextmanager
async def one_more(pool: Pool) -> AsyncIterator[tuple[Ends, Ends]]:
    """Begin a slow request beside a fast one, then one more than there is room for."""
    slow = await asyncio.open_connection("127.0.0.1", pool.router.port)
    slow[1].write(HEAD % 4_000_000 + b"{")
    await until(lambda: pool.router.clients.bodies.sending == 2)
    newcomer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    newcomer[1].write(HEAD % 4_000_000 + b"{")
    yield slow, newcomer
    for _, writer in (slow, newcomer):
        writer.close()


async def test_what_never_came_is_no_demand(pool: Pool) -> None:
    pool.configure(limits={"concurrent_requests": 1}, timeouts={"body_s": 0.2})
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.complete([5] * 7))
    await pool.engines["p0"].wait_seen(1)

    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
        writer.write(HEAD % 4_000_000 + b"{")
        assert b" 408 " in await asyncio.wait_for(reader.readline(), GIVEN_UP_S)
        writer.close()

    [[_, requests, tokens, _]] = (await pool.arrivals())["arrivals"]
    assert (sum(requests), sum(tokens)) == (1, 7)
    assert pool.metric("tandem_router_requests_total", outcome="shed") in (None, 0)
    task.cancel()


async def test_a_body_at_the_least_rate_may_take_longer_than_its_time(pool: Pool) -> None:
    pool.configure(timeouts={"body_s": 3.0})
    body = json.dumps({"model": "tiny", "prompt": "word " * 60_000}).encode()
    step = int(LEAST_BYTES_PER_S * 3.0)
    loop = asyncio.get_running_loop()
    began_s = loop.time()

    async def slowly() -> AsyncIterator[bytes]:
        for start in range(0, len(body), step):
            yield body[start : start + step]
            await asyncio.sleep(0.6)

    async with pool.client.post(pool.url + "/v1/completions", data=slowly()) as response:
        assert response.status == 200
    assert loop.time() - began_s > 3.0


async def test_a_body_that_comes_in_drops_is_given_up(pool: Pool) -> None:
    pool.configure(timeouts={"body_s": 0.3})
    async with senders(pool, 1) as ((reader, writer),):

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.02)

        drops = asyncio.create_task(drip())
        answer = await asyncio.wait_for(reader.readline(), GIVEN_UP_S)
        drops.cancel()

    assert b" 408 " in answer


async def test_bodies_have_so_much_room_together_and_no_more(pool: Pool) -> None:
    pool.configure(limits={"in_flight_body_bytes": 150_000})
    hold = pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.complete("x" * 100_000))
    await pool.engines["p0"].wait_seen(1)

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x" * 100_000})
    assert (status, answer["error"]["code"]) == (503, "too_many_body_bytes")
    assert headers["Retry-After"] == "1"
    small = asyncio.create_task(pool.complete())
    await until(lambda: pool.router.clients.requests == 2)
    hold.set()

    assert (await task)[0] == (await small)[0] == 200
    assert (await pool.complete("x" * 100_000))[0] == 200


async def test_what_is_left_of_bodies_is_nothing(pool: Pool) -> None:
    async with senders(pool, 3, b"x" * 50_000):
        await until(lambda: pool.router.clients.bodies.held_bytes == 150_000)
    await pool.complete("x" * 100_000)
    await pool.post(b"{")
    await pool.idle()

    assert pool.router.clients.bodies.held_bytes == 0


@pytest.mark.parametrize("size", [1, 300_000])
async def test_large_bodies_fare_like_small_ones(pool: Pool, size: int) -> None:
    pool.configure(max_model_len=None)
    good, _ = await pool.complete([5] * size)
    bad, answer, _ = await pool.post(b'{"model": "tiny", "prompt": "' + b"x" * size)

    assert (good, bad) == (200, 400) if size < 262_144 else (413, 400)
    assert answer["error"]["code"] == "invalid_json"
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1 + (size > 262_144)


async def test_while_a_large_body_is_looked_into_others_are_served(pool: Pool) -> None:
    body = json.dumps({"model": "tiny", "prompt": "x" * 100_000}).encode()
    # Somebody else's body is being looked into, and takes for ever.
    at_work = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    pool.router.clients.reader.submit(
        lambda: (loop.call_soon_threadsafe(at_work.set), stop.wait(30))
    )
    await asyncio.wait_for(at_work.wait(), 60)
    large = asyncio.create_task(pool.post(body))

    status, _ = await pool.complete()
    assert status == 200
    # The large one came first, and has been sent to no engine.
    assert all(len(seen.body["prompt"]) < 100_000 for seen in pool.engines["p0"].seen)
    assert not large.done()
    stop.set()

    assert (await large)[0] == 200
