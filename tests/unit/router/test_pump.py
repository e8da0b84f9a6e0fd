"""Ordinary pieces of a stream reach the client at once; a task is woken for the others."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest.mock import create_autospec

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.router.forwarding.client_stream import ClientGone
from tandem_engine.router.forwarding.engine_answer import EngineAnswer
from tandem_engine.router.forwarding.pump import Piece, Pump
from tandem_engine.router.forwarding.upstream import FailureReason, UpstreamFailure
from tandem_engine.router.openai.sse import TokenCount

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Client:
    """Takes what it is sent."""

    begun = True
    stalled_s = 0.0

    def __init__(self) -> None:
        self.sent = b""
        self.behind = False
        self.gone = False

    def write(self, events: bytes) -> bool:
        if self.gone:
            raise ClientGone
        self.sent += events
        return self.behind

    def push(self, payloads: list[bytes]) -> bool:
        return self.write(b"".join(b"data: %b\n\n" % payload for payload in payloads))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(tokens: int, *, ordinary: bool = True) -> bytes:
    head = b'"id":"x",' + (b'"object":"o","created":1,"model":"m",' if ordinary else b"")
    told = b'"usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":%d}' % tokens
    return b'data: {%b"choices":[{"index":0,"text":"a","finish_reason":null}],%b}\n\n' % (
        head,
        told,
    )


class Stream:
    """An engine's answer as a test lets it come, and the task that reads it."""

    def __init__(self, client: Callable[[], Any] = Client) -> None:
        transport = create_autospec(asyncio.Transport, instance=True)
        self.answer = EngineAnswer(transport, lambda _: None)
        self.client = client()
        self.count = TokenCount(choices=1, include_usage=False, continuous_usage=False)
        self.passed: list[bool] = []
        self.pump = Pump(self.answer, self.count, self.client, self.passed.append)

    async def begin(self) -> "asyncio.Task[Piece]":
        """Read the first token as the task does, and then go on by itself."""
        self.answer.feed(HEAD + chunk(event(1)))
        await self.pump.next()
        task = asyncio.create_task(self.pump.unusual())
        await asyncio.sleep(0)
        return task


@pytest.mark.parametrize("ordinary", [True, False])
async def test_an_ordinary_token_is_sent_before_any_task_runs(ordinary: bool) -> None:
    stream = Stream()
    task = await stream.begin()

    for tokens in (2, 3, 3):
        stream.answer.feed(chunk(event(tokens, ordinary=ordinary)))

    assert stream.client.sent.count(b'"text":"a"') == 3
    assert b"usage" not in stream.client.sent
    assert stream.count.output_tokens == 3
    assert stream.passed == [True, True, False]
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


async def test_what_comes_between_two_looks_of_the_task_is_not_left_lying() -> None:
    stream = Stream()
    stream.answer.feed(HEAD + chunk(event(1)))
    await stream.pump.next()
    stream.answer.feed(chunk(event(2)))

    task = asyncio.create_task(stream.pump.unusual())
    await asyncio.sleep(0)

    assert stream.passed == [True]
    task.cancel()


async def test_an_event_that_comes_in_two_parts_is_one() -> None:
    stream = Stream()
    task = await stream.begin()
    whole = event(2) + event(3)

    for part in (whole[:30], whole[30:]):
        stream.answer.feed(chunk(part))

    assert stream.client.sent.count(b'"text":"a"') == 2
    assert stream.count.output_tokens == 3
    task.cancel()


async def test_the_end_is_the_tasks_to_pass_on() -> None:
    stream = Stream()
    task = await stream.begin()

    stream.answer.feed(chunk(event(2)) + chunk(b"data: [DONE]\n\n") + END)
    piece = await task

    assert piece.done
    assert [payload == b"[DONE]" for payload in piece.payloads] == [False, True]
    assert not stream.client.sent


@pytest.mark.parametrize("how", ["ended", "lost", "nonsense"])
async def test_a_stream_that_ends_with_a_token_has_lost_its_end(how: str) -> None:
    stream = Stream()
    task = await stream.begin()

    stream.answer.feed(chunk(event(2)) + {"ended": END, "lost": b"", "nonsense": b"x"}[how])
    if how == "lost":
        stream.answer.lost()

    with pytest.raises(UpstreamFailure) as failed:
        await task
    assert failed.value.reason is FailureReason.DISCONNECTED
    assert stream.client.sent.count(b'"text":"a"') == 1


async def test_a_client_that_is_behind_is_the_tasks_to_wait_for() -> None:
    stream = Stream()
    task = await stream.begin()
    stream.client.behind = True

    stream.answer.feed(chunk(event(2)))
    stream.answer.feed(chunk(event(3)))
    piece = await task

    assert (piece.passed_on, piece.fresh, piece.payloads) == (True, True, [])
    assert stream.client.sent.count(b'"text":"a"') == 1
    assert not stream.passed


async def test_an_error_of_the_engine_is_the_tasks_to_deal_with() -> None:
    stream = Stream()
    task = await stream.begin()

    stream.answer.feed(chunk(event(2) + b'data: {"error":{"message":"x"}}\n\n'))
    piece = await task

    assert piece.broken is not None
    assert isinstance(piece.broken(), UpstreamFailure)
    assert len(piece.payloads) == 1


async def test_a_client_that_has_gone_ends_the_task() -> None:
    stream = Stream()
    task = await stream.begin()
    stream.client.gone = True

    stream.answer.feed(chunk(event(2)))

    with pytest.raises(ClientGone):
        await task


async def test_whatever_goes_wrong_goes_wrong_in_the_task() -> None:
    def passed(_: bool) -> None:
        raise LookupError

    stream = Stream()
    stream.pump = Pump(stream.answer, stream.count, stream.client, passed)
    task = await stream.begin()

    stream.answer.feed(chunk(event(2)))

    with pytest.raises(LookupError):
        await task


class ParsedBytes:
    """Counts the bytes that the parser of an answer gets."""

    def __init__(self, parser: httptools.HttpResponseParser) -> None:
        self._parser = parser
        self.count = 0

    def feed_data(self, data: bytes) -> None:
        self.count += len(data)
        self._parser.feed_data(data)


async def test_ordinary_chunks_need_no_parser() -> None:
    stream = Stream()
    task = await stream.begin()
    parser: Any = stream.answer._parser
    stream.answer._parser = parsed = ParsedBytes(parser)  # type: ignore[assignment]

    stream.answer.feed(chunk(event(2)))
    stream.answer.feed(chunk(event(3)) + chunk(event(4)))

    assert parsed.count == 0
    assert stream.client.sent.count(b'"text":"a"') == 3
    assert stream.passed == [True, True]
    assert not task.done()
    task.cancel()


@pytest.mark.parametrize(
    "unlike",
    [
        chunk(event(2))[:-1],
        chunk(event(2)) + b"5",
        chunk(event(2)[:-1]),
        b"1" + chunk(event(2)),
        b"%x;a=b\r\n%b\r\n" % (len(event(2)), event(2)),
        chunk(event(2, ordinary=False)),
    ],
    ids=["no end", "next began", "half an event", "wrong length", "extension", "unusual"],
)
async def test_the_parser_gets_what_is_not_whole_chunks_of_ordinary_events(unlike: bytes) -> None:
    stream = Stream()
    task = await stream.begin()
    parser: Any = stream.answer._parser
    stream.answer._parser = parsed = ParsedBytes(parser)  # type: ignore[assignment]

    stream.answer.feed(unlike)

    assert parsed.count == len(unlike)
    task.cancel()


# Each last part alone looks like a whole chunk of one ordinary event, and is none.
FIRST, ALIKE = event(2), chunk(event(3))


@pytest.mark.parametrize(
    "parts",
    [
        [b"%x\r\n%b" % (len(FIRST) + len(ALIKE), FIRST), ALIKE],
        [chunk(FIRST) + b"1", ALIKE],
        [chunk(b": no event yet"), ALIKE],
    ],
    ids=["inside a chunk", "inside its head", "inside an event"],
)
async def test_the_parser_gets_what_only_looks_like_a_chunk(parts: list[bytes]) -> None:
    stream = Stream()
    task = await stream.begin()
    parser: Any = stream.answer._parser
    stream.answer._parser = parsed = ParsedBytes(parser)  # type: ignore[assignment]

    for part in parts:
        stream.answer.feed(part)

    assert parsed.count == sum(map(len, parts))
    task.cancel()


class OnlyPayloads(Client):
    """Takes no events as they come, so that each of them is read."""

    write: Any = None

    def push(self, payloads: list[bytes]) -> bool:
        self.sent += b"".join(b"data: %b\n\n" % payload for payload in payloads)
        return False


async def sent_to(kind: Callable[[], Any], parts: list[bytes]) -> tuple[bytes, int]:
    """Return what a client gets of a stream that comes in these parts, and the counted tokens."""
    stream = Stream(kind)
    client = stream.client
    stream.answer.feed(HEAD + chunk(event(1)))

    async def read() -> None:
        piece = await stream.pump.next()
        while not piece.done:
            client.push(piece.payloads)
            piece = await stream.pump.unusual()
        client.push(piece.payloads)

    task = asyncio.create_task(read())
    for part in parts:
        await asyncio.sleep(0)
        stream.answer.feed(part)
    await task
    return client.sent, stream.count.output_tokens


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return the parts of `data` between these places, wherever they lie."""
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(ends)]


@given(
    ordinary=st.lists(st.booleans(), max_size=12),
    chunk_ends=st.lists(st.integers(0, 10**6), max_size=6) | st.none(),
    part_ends=st.lists(st.integers(0, 10**6), max_size=12) | st.none(),
)
def test_a_client_gets_the_same_however_its_stream_is_cut(
    ordinary: list[bool], chunk_ends: list[int] | None, part_ends: list[int] | None
) -> None:
    """Without places to cut, an event is a chunk, and a chunk comes alone."""
    events = [event(2 + number, ordinary=usual) for number, usual in enumerate(ordinary)]
    pieces = events if chunk_ends is None else cut(b"".join(events), chunk_ends)
    chunks = [*map(chunk, pieces), chunk(b"data: [DONE]\n\n") + END]
    parts = chunks if part_ends is None else cut(b"".join(chunks), part_ends)

    sent, tokens = asyncio.run(sent_to(Client, parts))

    assert (sent, tokens) == asyncio.run(sent_to(OnlyPayloads, parts))
    assert sent.count(b'"text":"a"') == tokens == 1 + len(events)
