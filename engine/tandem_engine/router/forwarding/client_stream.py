"""The client's side of a connection: a write never waits, and each wait has a limit.

aiohttp waits inside a write for as long as the client reads nothing. This time is not the engine's,
and it must be limited. So one place waits, counts the time, and ends it by giving the client up.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.http import StreamWriter

from tandem_engine.router.forwarding.untaken import untaken_bytes

_LAST_WORDS_S = 1.0


class ClientGone(Exception):  # noqa: N818 - an event of ordinary operation
    """The client closed its connection, or the router gave it up."""


class Answer(web.StreamResponse):
    """An answer whose head waits for its first data, to leave in one write with it."""

    _send_headers_immediately = False


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
        self.stalled_s = 0.0
        self.ended = False

    async def write(self, response: Answer, data: bytes) -> None:
        """Send a part of the answer; return once the client has read most of the sent data.

        Raises `ClientGone`; so does `end`.
        """
        try:
            if not response.prepared:
                await self._open(response)
            await self._writer.write(data, drain=False)
        except OSError as error:
            raise ClientGone from error
        await self.taken()

    def push(self, data: bytes) -> bool:
        """Send a further part of an answer that has begun; return whether to wait for the client.

        Raises `ClientGone`.
        """
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise ClientGone
        # As aiohttp's writer does, without the steps that nothing needs here.
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._writer.chunked else data)
        return self._protocol.writing_paused

    async def taken(self) -> None:
        """Wait until the client has read most of the sent data; raises `ClientGone`."""
        if self._protocol.writing_paused:
            await self._taken()

    async def end(self, response: Answer, data: bytes = b"") -> None:
        """End the answer, after its last data if there is any."""
        try:
            if not response.prepared:
                await self._open(response)
                if data:
                    await self._writer.write(data, drain=False)
            elif data:
                self._send_last(data)
            self._writer.set_eof()
            await response.write_eof()
        except OSError as error:
            raise ClientGone from error
        self.ended = True
        await self.taken()

    def hurry(self) -> None:
        """Leave the client only a moment to read the rest."""
        self._until_s = asyncio.get_running_loop().time() + _LAST_WORDS_S

    def _send_last(self, data: bytes) -> None:
        """Send the last data and, in the same write, the end of all chunks."""
        if self._writer.chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
            # So neither `push` nor aiohttp's writer puts anything around it or behind it.
            self._writer.chunked = False
        self.push(data)

    async def _open(self, response: Answer) -> None:
        if self._closing():
            response.force_close()
        await response.prepare(self._request)

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
