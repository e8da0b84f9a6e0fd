"""The client's end of a connection: no write waits, and what must be waited for has a bound.

aiohttp waits inside a write, and for as long as the client takes nothing. That time is neither the
engine's nor without end, so it is spent in one place, counted, and ended by giving the client up.
"""

import asyncio
import fcntl
import sys
import termios
from collections.abc import Callable

from aiohttp import web
from aiohttp.http import StreamWriter

_LAST_WORDS_S = 1.0


class ClientGone(Exception):  # noqa: N818 - an event of ordinary operation
    """The client closed its connection, or was given up."""


class Client:
    """Writes one answer.

    Attributes:
        stalled_s: how long, in all, the client made the router wait.
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
        """Give the client up once it takes nothing for `idle_s`, or is behind at `until_s`.

        `closing` says whether the connection is to end with the answer.
        """
        writer = request.writer
        assert isinstance(writer, StreamWriter)  # noqa: S101 - the one that aiohttp's server makes
        self._writer = writer
        self._request = request
        self._idle_s = idle_s
        self._until_s = until_s
        self._closing = closing
        self.stalled_s = 0.0
        self.ended = False

    async def write(self, response: web.StreamResponse, data: bytes) -> None:
        """Send a part of the answer; returns once the client has taken most of what it was sent.

        Raises `ClientGone`; so does `end`.
        """
        try:
            if not response.prepared:
                await self._open(response)
            await self._writer.write(data, drain=False)
        except OSError as error:
            raise ClientGone from error
        if self._request.protocol.writing_paused:
            await self._taken()

    async def end(self, response: web.StreamResponse) -> None:
        """End the answer."""
        try:
            if not response.prepared:
                await self._open(response)
            self._writer.set_eof()
            await response.write_eof()
        except OSError as error:
            raise ClientGone from error
        self.ended = True
        if self._request.protocol.writing_paused:
            await self._taken()

    def hurry(self) -> None:
        """Leave the client a moment for the rest."""
        self._until_s = asyncio.get_running_loop().time() + _LAST_WORDS_S

    async def _open(self, response: web.StreamResponse) -> None:
        if self._closing():
            response.force_close()
        await response.prepare(self._request)

    async def _taken(self) -> None:
        """Wait until the client has taken most of what it was sent."""
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
                left = _untaken_bytes(transport)
                bound_s = min(self._idle_s, max(0.0, self._until_s - now))
                await asyncio.wait((taken,), timeout=bound_s)
                now = loop.time()
                if not taken.done() and (now >= self._until_s or _untaken_bytes(transport) >= left):
                    transport.abort()
                    raise ClientGone
        finally:
            self.stalled_s += loop.time() - began
        if transport.is_closing():
            raise ClientGone


def _untaken_bytes(transport: asyncio.Transport) -> int:
    """Return what waits for the client here and in the kernel.

    The kernel asks for more only once a good part of its megabytes has gone: to a slow client that
    takes minutes in which the transport alone looks stuck.
    """
    here = transport.get_write_buffer_size()
    try:
        queued = fcntl.ioctl(
            transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, b"\0\0\0\0"
        )
    except (OSError, ValueError):
        return here
    return here + int.from_bytes(queued, sys.byteorder)


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
