"""The client's side of a connection: a write never waits, and each wait has a limit.

aiohttp waits inside a write for as long as the client reads nothing. This time is not the engine's,
and it must be limited. So one place waits, counts the time, and ends it by giving the client up.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache

from aiohttp import web
from aiohttp.http import HttpVersion11, StreamWriter

from tandem_engine.router.forwarding.header_lines import header_lines
from tandem_engine.router.forwarding.untaken import untaken_bytes

_LAST_WORDS_S = 1.0


class ClientGone(Exception):  # noqa: N818 - an event of ordinary operation
    """The client closed its connection, or the router gave it up."""


class ClientAnswer(web.StreamResponse):
    """An answer with status 200, as aiohttp sees it: it is sent, and by `Client` alone.

    Attributes:
        fields: its own headers.
        length: the bytes of its body; `None`: it is a stream.
    """

    def __init__(self, fields: Mapping[str, str], *, length: int | None = None) -> None:
        super().__init__()
        self.fields = fields
        self.length = length
        self._keeps: bool | None = None

    @property
    def prepared(self) -> bool:
        """Return whether its head was sent."""
        return self._keeps is not None

    @property
    def keep_alive(self) -> bool | None:
        """Return whether the connection can be used again after it."""
        return self._keeps

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing."""

    def head(self, request: web.BaseRequest, *, closing: bool) -> tuple[bytes, bool]:
        """Return its head, and whether its data goes out in chunks; now it counts as sent."""
        is_new = request.version >= HttpVersion11
        chunked = is_new and self.length is None
        lines = header_lines(self.fields)
        self._keeps = request.keep_alive and not closing and (chunked or self.length is not None)
        if chunked:
            lines += b"Transfer-Encoding: chunked\r\n"
        elif self.length is not None:
            lines += b"Content-Length: %d\r\n" % self.length
        if self._keeps is not is_new:
            lines += b"Connection: keep-alive\r\n" if self._keeps else b"Connection: close\r\n"
        version = b"HTTP/1.1" if is_new else b"HTTP/1.0"
        head = b"%b 200 OK\r\n%bDate: %b\r\n\r\n" % (version, lines, _date(int(time.time())))
        return head, chunked


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


class Client:
    """Writes one answer.

    Attributes:
        stalled_s: the total time for which the router waited for the client.
        ended: whether all of the answer was written.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        *,
        idle_s: float,
        until_s: float,
        closing: Callable[[], bool],
    ) -> None:
        """Give the client up if it reads nothing for `idle_s`, or has unread data at `until_s`.

        `closing` says whether the connection closes after the answer.
        """
        writer = request.writer
        assert isinstance(writer, StreamWriter)  # noqa: S101 - the one that aiohttp's server makes
        self._writer = writer
        self._request = request
        self._protocol = request.protocol
        self._idle_s = idle_s
        self._until_s = until_s
        self._closing = closing
        self._chunked = False
        self.stalled_s = 0.0
        self.ended = False

    async def write(self, response: ClientAnswer, data: bytes) -> None:
        """Send a part of the answer; return once the client has read most of the sent data.

        Raises `ClientGone`; so does `end`.
        """
        self._send(self._begun(response) + self._framed(data))
        await self.taken()

    def push(self, data: bytes) -> bool:
        """Send a further part of an answer that has begun; return whether to wait for the client.

        Raises `ClientGone`.
        """
        # Once for each token: as `write` does, without its calls.
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ClientGone
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return self._protocol.writing_paused

    async def taken(self) -> None:
        """Wait until the client has read most of the sent data; raises `ClientGone`."""
        if self._protocol.writing_paused:
            await self._taken()

    async def end(self, response: ClientAnswer, data: bytes = b"") -> None:
        """End the answer, in one write with its last data if there is any; a second time: wait."""
        if not self.ended:
            head = self._begun(response)
            self._send(head + self._framed(data) + (b"0\r\n\r\n" if self._chunked else b""))
            self.ended = True
        await self.taken()

    def hurry(self) -> None:
        """Leave the client only a moment to read the rest."""
        self._until_s = asyncio.get_running_loop().time() + _LAST_WORDS_S

    def _begun(self, response: ClientAnswer) -> bytes:
        """Return the head of an answer that has not begun, and else nothing."""
        if response.prepared:
            return b""
        head, self._chunked = response.head(self._request, closing=self._closing())
        # What shows that an answer has begun, whatever comes of it.
        self._writer.output_size += len(head)
        return head

    def _framed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data

    def _send(self, data: bytes) -> None:
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ClientGone
        if data:
            transport.write(data)

    async def _taken(self) -> None:
        """Wait until the client has read most of the sent data."""
        transport = self._request.transport
        if transport is None:
            raise ClientGone
        loop = asyncio.get_running_loop()
        began = now = loop.time()
        # A task of its own: aiohttp shares one future, and a wait that is cancelled cancels it
        # for those that come after.
        taken = asyncio.ensure_future(self._writer.drain())
        taken.add_done_callback(_retrieve)
        try:
            while not taken.done():
                left = untaken_bytes(transport)
                bound_s = min(self._idle_s, max(0.0, self._until_s - now))
                await asyncio.wait((taken,), timeout=bound_s)
                now = loop.time()
                if not taken.done() and (now >= self._until_s or untaken_bytes(transport) >= left):
                    transport.abort()
                    raise ClientGone
        finally:
            self.stalled_s += loop.time() - began
        if transport.is_closing():
            raise ClientGone


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
