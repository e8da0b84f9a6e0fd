"""Connections to engines, kept for later requests as long as an engine keeps them open.

Each connection carries one request after the other. aiohttp's client makes many objects for a
request, and wakes a task for each piece of an answer. That costs more than to pass a token on.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import cast

from tandem_engine.router.forwarding.alarms import Alarms
from tandem_engine.router.forwarding.engine_answer import EngineAnswer
from tandem_engine.router.forwarding.header_lines import header_lines
from tandem_engine.router.forwarding.untaken import untaken_bytes

# Below uvicorn's 5 s: a connection that the engine is about to close is not taken up again.
_KEEPALIVE_S = 3.0
# The kernel of an engine's machine takes so much, whether or not the engine reads it.
_SURELY_TAKEN_BYTES = 16 * 1024

Address = tuple[str, int]


class Unreachable(ConnectionError):  # noqa: N818 - an event of ordinary operation
    """No connection could be made: the engine cannot have seen the request."""


class _Connection(asyncio.Protocol):
    """One connection, to one `address`."""

    def __init__(self, pool: "EngineConnections", address: Address) -> None:
        self._pool = pool
        self._answer: EngineAnswer | None = None
        self._idle_until_s: float | None = None
        self._alarmed = False
        self._request_bytes = 0
        self._transport: asyncio.Transport
        self.address = address

    @property
    def usable(self) -> bool:
        """Return whether it can send a request."""
        return not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._pool.open.add(self)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the answer."""
        if self._answer is None or self._answer.ended:
            # Nobody asked.
            self.close()
        else:
            self._answer.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        del exc
        self._pool.open.discard(self)
        self._busy()
        if self._answer is not None:
            self._answer.lost()

    def ask(self, request: bytes) -> EngineAnswer:
        """Send a request."""
        self._busy()
        self._request_bytes = len(request)
        answer = self._answer = EngineAnswer(self._transport, self._over)
        self._transport.write(request)
        return answer

    def close(self) -> None:
        """Close it at once."""
        self._transport.abort()

    def _busy(self) -> None:
        if self._idle_until_s is not None:
            self._idle_until_s = None
            self._pool.taken(self)

    def _watch(self) -> None:
        """Close it once it was idle for too long; the alarm stays while it is used in between."""
        self._alarmed = self._idle_until_s is not None
        if self._idle_until_s is None:
            return
        if self._pool.alarms.time() >= self._idle_until_s:
            self.close()
        else:
            self._pool.alarms.set(self._idle_until_s, self._watch)

    def _over(self, answer: EngineAnswer) -> None:
        """Wait for the next request, if the last one left the connection clean."""
        if answer is not self._answer:
            return
        self._answer = None
        clean = answer.keep and answer.at_end and self.usable
        # An engine may answer before it has read a request, and it need never read the rest.
        taken = self._request_bytes <= _SURELY_TAKEN_BYTES or not untaken_bytes(self._transport)
        if clean and taken:
            self._idle_until_s = self._pool.alarms.time() + _KEEPALIVE_S
            if not self._alarmed:
                self._watch()
            self._pool.idle.setdefault(self.address, {})[self] = None
        else:
            self.close()


class EngineConnections:
    """Sends requests to engines, with common headers and those of each request.

    Attributes:
        alarms: when idle connections are closed.
        idle: connections without a request, by address, the last used one last.
        open: all connections.
    """

    def __init__(self, headers: Mapping[str, str], alarms: Alarms) -> None:
        self._headers = header_lines(headers)
        self.alarms = alarms
        self.idle: dict[Address, dict[_Connection, None]] = {}
        self.open: set[_Connection] = set()

    async def post(
        self,
        address: Address,
        path: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        connect_s: float,
    ) -> EngineAnswer:
        """Return the answer to a request once its head is here; the caller releases it.

        Raises `Unreachable` or `AnswerCut`.
        """
        request = b"%b%b%bContent-Length: %d\r\n\r\n%b" % (
            _beginning(address, path),
            self._headers,
            header_lines(headers),
            len(body),
            body,
        )
        idle = self.idle.get(address, {})
        connection = next((one for one in reversed(idle) if one.usable), None)
        if connection is None:
            connection = await self._connect(address, connect_s)
        answer = connection.ask(request)
        try:
            await answer.head()
        except BaseException:
            answer.release()
            raise
        return answer

    def taken(self, connection: _Connection) -> None:
        """Record that a connection is no longer idle."""
        idle = self.idle[connection.address]
        del idle[connection]
        if not idle:
            del self.idle[connection.address]

    def close(self) -> None:
        """Close every connection."""
        for connection in tuple(self.open):
            connection.close()

    async def _connect(self, address: Address, connect_s: float) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, address), *address
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable from error
        return connection


@lru_cache(maxsize=1024)
def _beginning(address: Address, path: str) -> bytes:
    """Return what each request for a path of an engine begins with."""
    host, port = address
    shown = f"[{host}]" if ":" in host else host
    return f"POST {path} HTTP/1.1\r\nHost: {shown}:{port}\r\n".encode()
