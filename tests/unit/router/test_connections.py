"""Connections that bring no request, or half of one."""

import asyncio

from tests.unit.router.pool import Pool, until

GIVEN_UP_S = 9.0
"""Less than the time that a head has unless the settings say otherwise."""


async def opened(pool: Pool, data: bytes = b"") -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    if data:
        writer.write(data)
    # Else it would be closed with the writer.
    reader.writer = writer  # type: ignore[attr-defined]
    return reader


async def test_heads_that_never_end_end_their_connections(pool: Pool) -> None:
    pool.configure(timeouts={"head_s": 0.2})
    readers = [await opened(pool, b"POST /v1/completions HTTP/1.1\r\nHost:") for _ in range(300)]

    answers = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader in readers)), 20)

    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    assert all(b'"code": "head_timeout"' in answer for answer in answers)


async def test_a_head_in_drops_has_no_more_time(pool: Pool) -> None:
    pool.configure(timeouts={"head_s": 0.3})
    reader = await opened(pool, b"GET /health HTTP/1.1\r\n")

    async def drip() -> None:
        while True:
            reader.writer.write(b"X: y\r\n")  # type: ignore[attr-defined]
            await asyncio.sleep(0.02)

    drops = asyncio.create_task(drip())
    answer = await asyncio.wait_for(reader.readline(), GIVEN_UP_S)
    drops.cancel()

    assert b" 408 " in answer


async def test_a_second_head_has_as_much_time_as_the_first(pool: Pool) -> None:
    pool.configure(timeouts={"head_s": 0.3})
    reader = await opened(pool, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /health")
    first = await asyncio.wait_for(reader.readuntil(b"}"), 60)
    reader.writer.write(b" HTTP/1.1\r\n")  # type: ignore[attr-defined]

    rest = await asyncio.wait_for(reader.read(), GIVEN_UP_S)

    assert first.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in rest


async def test_requests_and_silence_between_them_may_take_longer_than_a_head(pool: Pool) -> None:
    pool.configure(timeouts={"head_s": 0.1})
    pool.engines["d0"].script.first_token_s = 0.3
    reader = await opened(pool)
    for _ in range(2):
        await asyncio.sleep(0.3)
        body = b'{"model": "tiny", "prompt": "x"}'
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        reader.writer.write(head % len(body) + body)  # type: ignore[attr-defined]

        status = await asyncio.wait_for(reader.readline(), 60)
        await asyncio.wait_for(reader.readuntil(b"}]"), 60)
        await asyncio.wait_for(reader.readuntil(b"}}"), 60)
        assert b" 200 " in status


async def test_the_longest_idle_make_room_for_newcomers(pool: Pool) -> None:
    pool.configure(limits={"concurrent_requests": 10})
    hold = pool.engines["p0"].script.hold = asyncio.Event()
    busy = asyncio.create_task(pool.complete())
    await pool.engines["p0"].wait_seen(1)
    idle = [await opened(pool) for _ in range(150)]

    # A hundred, and two for each request that may be inside.
    await until(lambda: sum(reader.at_eof() for reader in idle) >= 31)
    assert await pool.probe("/health") == 200
    assert idle[0].at_eof()
    assert not idle[-1].at_eof()
    hold.set()
    assert (await busy)[0] == 200


async def test_where_all_connections_are_at_work_a_newcomer_is_closed(pool: Pool) -> None:
    pool.configure(limits={"concurrent_requests": 1000}, timeouts={"body_s": 60.0})
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    busy = [await opened(pool, head) for _ in range(105)]
    await until(lambda: pool.router.clients.requests == 105)
    pool.configure(limits={"concurrent_requests": 2})

    reader = await opened(pool)

    assert await asyncio.wait_for(reader.read(), 60) == b""
    assert not any(one.at_eof() for one in busy)
    # Else the router waits at its end for bodies that never come.
    for one in busy:
        one.writer.close()  # type: ignore[attr-defined]
