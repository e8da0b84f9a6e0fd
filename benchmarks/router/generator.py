"""A closed-loop generator on bare asyncio protocols: so many streams at a time, timed exactly.

Against the upstream alone it does both steps itself (a prefill request, then the stream), which
is the work that a router does for it; what a router adds is the difference.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_TOKEN = b'"text":" token"'
_END = b"0\r\n\r\n"
_PROMPT = "word " * 64


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent.

    Attributes:
        streams: how many are open at any time.
        tokens, gap_s: length and pace of each stream.
        ramp_s: streams start evenly over this time; nothing before its end is counted.
        window_s: how long is counted.
    """

    streams: int
    tokens: int
    gap_s: float
    ramp_s: float
    window_s: float


@dataclass(slots=True)
class Result:
    """What came back inside the window."""

    ttft_s: list[float] = field(default_factory=list)
    tokens: int = 0
    cpu_s: float = 0.0
    failed: int = 0


class _Connection(asyncio.Protocol):
    """One keep-alive connection with one request at a time."""

    def __init__(self, result: Result, window: tuple[float, float]) -> None:
        self._result, self._window = result, window
        self.transport: asyncio.Transport | None = None
        self.tokens = 0
        self.first_s: float | None = None
        self._tail = b""
        self._streaming = False
        self._done: asyncio.Future[bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._end(well=False)

    def ask(self, request: bytes, *, streaming: bool) -> "asyncio.Future[bool]":
        """Send a request; the future says whether the answer was whole."""
        assert self.transport is not None
        self._tail, self._streaming, self.first_s, self.tokens = b"", streaming, None, 0
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        seen = self._tail + data
        if not self._streaming:
            self._tail = seen
            if seen.endswith(b"}"):
                self._end(well=b" 200 " in seen[:16])
            return
        count = seen.count(_TOKEN)
        if count:
            self.tokens += count
            now = time.perf_counter()
            if self.first_s is None:
                self.first_s = now
            if self._window[0] <= now <= self._window[1]:
                self._result.tokens += count
        # Only what may be half a token is kept, so that none is counted twice.
        last = seen.rfind(_TOKEN)
        self._tail = seen[max(last + len(_TOKEN) if last >= 0 else 0, len(seen) - 32) :]
        if seen.endswith(_END):
            self._end(well=self.tokens > 0)
        elif self.first_s is None and b"content-length:" in seen.lower():
            self._end(well=False)

    def _end(self, *, well: bool) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(well)


def request_bytes(load: Load, *, prefill: bool) -> bytes:
    """Return one whole HTTP request."""
    document = {
        "model": "tiny",
        "prompt": _PROMPT,
        "max_tokens": 1 if prefill else load.tokens,
        "temperature": load.gap_s,
        "stream": not prefill,
    }
    if prefill:
        document["kv_transfer_params"] = {"do_remote_decode": True}
    body = json.dumps(document).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: benchmark\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def run(
    load: Load, *, port: int, prefill_port: int | None, cpu_s: Callable[[], float]
) -> Result:
    """Run the load against a port and return what the window saw; `cpu_s` is read at its edges."""
    result = Result()
    began = time.perf_counter()
    window = (began + load.ramp_s, began + load.ramp_s + load.window_s)
    loop = asyncio.get_running_loop()
    at_edges: list[float] = []
    for delay_s in (load.ramp_s, load.ramp_s + load.window_s):
        loop.call_later(delay_s, lambda: at_edges.append(cpu_s()))
    await asyncio.gather(
        *(
            _stream(load, result, index, window=window, port=port, prefill_port=prefill_port)
            for index in range(load.streams)
        )
    )
    result.cpu_s = at_edges[1] - at_edges[0]
    return result


async def _stream(
    load: Load,
    result: Result,
    index: int,
    *,
    window: tuple[float, float],
    port: int,
    prefill_port: int | None,
) -> None:
    prefill, stream = request_bytes(load, prefill=True), request_bytes(load, prefill=False)
    await asyncio.sleep(load.ramp_s * 0.9 * index / load.streams)
    first: _Connection | None = None
    second: _Connection | None = None
    while True:
        if prefill_port is not None:
            first = await _connected(first, result, port=prefill_port, window=window)
        second = await _connected(second, result, port=port, window=window)
        started = time.perf_counter()
        if started > window[1]:
            break
        whole = first is None or await first.ask(prefill, streaming=False)
        whole = whole and await second.ask(stream, streaming=True)
        if not whole:
            result.failed += 1
            await asyncio.sleep(0.05)
        elif window[0] <= started and second.first_s is not None:
            result.ttft_s.append(second.first_s - started)
    for connection in (first, second):
        if connection is not None and connection.transport is not None:
            connection.transport.close()


async def _connected(
    connection: _Connection | None, result: Result, *, port: int, window: tuple[float, float]
) -> _Connection:
    """Return the connection, or a new one in place of one that is closed."""
    if connection is not None and connection.transport is not None:
        return connection
    loop = asyncio.get_running_loop()
    _, fresh = await loop.create_connection(lambda: _Connection(result, window), "127.0.0.1", port)
    return fresh
