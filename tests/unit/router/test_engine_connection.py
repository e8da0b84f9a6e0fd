"""HTTP to engines: answers in any pieces, connections kept only where that is safe."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from unittest.mock import create_autospec

import pytest

from tandem_engine.router.forwarding.alarms import Alarms
from tandem_engine.router.forwarding.engine_answer import AnswerCut, EngineAnswer
from tandem_engine.router.forwarding.engine_connection import EngineConnections, Unreachable
from tandem_engine.router.forwarding.upstream import Upstream
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tests.unit.router.pool import until

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
Act = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Engine:
    """Acts on each request, and knows by which connections they came."""

    acts: list[Act]
    heads: list[str] = field(default_factory=list)
    peers: list[int] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while self.acts:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(4)
                self.heads.append(head.decode())
                self.peers.append(writer.get_extra_info("peername")[1])
                await self.acts.pop(0)(writer)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.left.set()
            writer.close()


def says(*pieces: bytes, close: bool = False) -> Act:
    async def act(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.close()

    return act


@asynccontextmanager
async def engine(
    *acts: Act,
) -> AsyncIterator[tuple[Engine, Callable[..., Awaitable[EngineAnswer]]]]:
    one, connections = Engine(list(acts)), EngineConnections({"Accept": "*/*"}, Alarms())
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]

    async def ask(body: bytes = b"body") -> EngineAnswer:
        return await connections.post(
            *(("127.0.0.1", one.port), "/v1/completions"),
            body=body,
            headers={"X-Request-Id": "r1"},
            connect_s=5,
        )

    async with asyncio.timeout(100):
        try:
            yield one, ask
        finally:
            connections.close()
            server.close()


async def whole(answer: EngineAnswer) -> bytes:
    parts = []
    while data := await answer.some():
        parts.append(data)
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 7, len(CHUNKED)])
async def test_an_answer_is_the_same_in_any_pieces(size: int) -> None:
    answer = EngineAnswer(create_autospec(asyncio.Transport, instance=True), lambda _: None)
    got = b""

    for at in range(0, len(CHUNKED), size):
        answer.feed(CHUNKED[at : at + size])
        got += answer.take()

    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    assert got == b"hello world"
    assert answer.at_end
    assert answer.keep


async def test_a_connection_serves_one_request_after_the_other() -> None:
    async with engine(says(CHUNKED), says(CHUNKED)) as (seen, ask):
        for _ in range(2):
            answer = await ask()
            assert (answer.status, answer.content_type) == (200, "text/event-stream")
            assert await whole(answer) == b"hello world"
            answer.release()

        assert seen.peers[0] == seen.peers[1]
        assert seen.heads[0].split("\r\n") == [
            "POST /v1/completions HTTP/1.1",
            f"Host: 127.0.0.1:{seen.port}",
            "Accept: */*",
            "X-Request-Id: r1",
            "Content-Length: 4",
            "",
            "",
        ]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", id="told so"),
        pytest.param(HEAD + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", id="more came"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", id="old"),
    ],
)
async def test_a_connection_that_is_not_clean_serves_no_other_request(said: bytes) -> None:
    async with engine(says(said), says(CHUNKED)) as (seen, ask):
        first = await ask()
        assert await whole(first) == b"ok"
        first.release()
        second = await ask()
        assert await whole(second) == b"hello world"

        assert seen.peers[0] != seen.peers[1]


@pytest.mark.parametrize("size", [2 * 1024 * 1024, 64 * 1024 * 1024])
async def test_no_request_is_sent_behind_one_that_the_engine_has_not_read(size: int) -> None:
    async def act(writer: asyncio.StreamWriter) -> None:
        # What comes of the body from now on stays in the sockets and in the router.
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(CHUNKED)

    async with engine(act, says(CHUNKED)) as (seen, ask):
        refused = await ask(bytes(size))
        assert await whole(refused) == b"hello world"
        refused.release()
        second = await ask()

        assert await whole(second) == b"hello world"
        assert seen.peers[0] != seen.peers[1]


async def test_what_comes_unasked_ends_an_idle_connection() -> None:
    late = asyncio.Event()

    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        await late.wait()
        writer.write(CHUNKED)

    async with engine(act, says(CHUNKED)) as (seen, ask):
        first = await ask()
        await whole(first)
        first.release()
        late.set()
        await seen.left.wait()
        second = await ask()

        assert await whole(second) == b"hello world"
        assert seen.peers[0] != seen.peers[1]


async def test_a_body_without_length_ends_with_its_connection() -> None:
    async with engine(says(HEAD + b"\r\n", b"hello", close=True)) as (_, ask):
        assert await whole(await ask()) == b"hello"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", id="chunked"),
        pytest.param(HEAD + b"Content-Length: 9\r\n\r\nhello", id="length"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n", id="no chunk"
        ),
    ],
)
async def test_a_body_that_is_cut_fails_though_it_was_not_read_so_far(said: bytes) -> None:
    async with engine(says(said, close=True)) as (seen, ask):
        answer = await ask()
        await seen.left.wait()
        await until(lambda: answer.over)

        with pytest.raises(AnswerCut):
            await answer.some()


@pytest.mark.parametrize(
    "said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000]
)
async def test_an_answer_without_a_head_fails(said: bytes) -> None:
    async with engine(says(said, close=True)) as (_, ask):
        with pytest.raises(AnswerCut):
            await ask()


async def test_a_word_before_the_answer_is_not_the_answer() -> None:
    async with engine(says(b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED)) as (_, ask):
        answer = await ask()
        assert (answer.status, await whole(answer)) == (200, b"hello world")


async def test_what_such_a_word_says_of_itself_is_not_said_of_the_answer() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\nContent-Type: text/plain\r\n\r\n"
    async with engine(says(hints, b"HTTP/1.1 200 OK\r\n\r\n", b"hello", close=True)) as (_, ask):
        answer = await ask()

        assert await whole(answer) == b"hello"
        assert answer.content_type == ""


async def test_an_engine_whose_answer_is_not_read_to_its_end_sees_the_connection_close() -> None:
    async with engine(says(CHUNKED[:-5])) as (seen, ask):
        answer = await ask()
        answer.release()

        await seen.left.wait()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected: what holds itself stays."""
    gc.disable()
    yield
    gc.enable()


def cut(answer: EngineAnswer) -> None:
    answer.feed(b"nonsense\r\n")


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("end", [lambda answer: None, cut, EngineAnswer.lost])
async def test_an_answer_that_is_given_up_is_freed_at_once(
    end: Callable[[EngineAnswer], None],
) -> None:
    answer = EngineAnswer(create_autospec(asyncio.Transport, instance=True), lambda _: None)
    seen = weakref.ref(answer)
    answer.feed(CHUNKED[:-10])
    end(answer)
    if answer.failure is not None:
        with pytest.raises(AnswerCut):
            await answer.some()

    answer.release()
    answer.feed(b"late")
    del answer

    assert seen() is None


async def test_an_unread_engine_answer_is_not_buffered_without_end() -> None:
    size, written = 64 * 1024 * 1024, asyncio.Event()

    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
        await writer.drain()
        written.set()

    async with engine(act) as (_, ask):
        answer = await ask()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await written.wait()

        assert len(await whole(answer)) == size
        assert written.is_set()


async def test_an_engine_that_is_not_there_cannot_have_seen_the_request() -> None:
    async with engine() as (seen, _):
        pass
    with pytest.raises(Unreachable):
        await EngineConnections({}, Alarms()).post(
            ("127.0.0.1", seen.port), "/", body=b"", headers={}, connect_s=5
        )


async def test_no_header_can_begin_another() -> None:
    with pytest.raises(ValueError, match="line break"):
        await EngineConnections({}, Alarms()).post(
            ("127.0.0.1", 1), "/", body=b"", headers={"X-Request-Id": "a\r\nX: y"}, connect_s=5
        )


async def test_an_engine_cannot_send_the_router_elsewhere() -> None:
    asked: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def sick(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        target = b"http://127.0.0.1:%d/health" % other.sockets[0].getsockname()[1]
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % target)

    other = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    server = await asyncio.start_server(sick, "127.0.0.1", 0)
    upstream = Upstream(key="k")
    port = server.sockets[0].getsockname()[1]

    lives = await upstream.lives(Pod(Endpoint("p", Role.PREFILL, "127.0.0.1", port)))

    await upstream.close()
    for each in (server, other):
        each.close()
    assert (lives, asked) == (False, [])
