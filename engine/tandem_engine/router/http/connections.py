"""The HTTP server of every port: limits on connections, and errors in OpenAI's shape.

aiohttp limits the time of a request's head only by the idle time of a connection, which is an hour,
because load balancers keep theirs open.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web

from tandem_contracts.router_settings import LimitSettings, RouterSettings, TimeoutSettings
from tandem_engine.router.http.request_id import HEADER, new_id
from tandem_engine.router.openai.errors import ApiError

SERVER = "tandem-router"
"""The header `Server`. It has no version, because a version would help an attacker."""
# Beyond this aiohttp refuses by itself; below it the settings decide.
_HARD_HEADER_BYTES = 256 * 1024
_PER_REQUEST, _BESIDES = 2, 100
# To look for idle connections costs as much for many as for one.
_CLOSED_AT_ONCE = 0.02
_LATE_HEAD = ApiError(408, "The head of the request did not arrive in time.", code="head_timeout")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Connection(web.RequestHandler):
    """A connection that answers broken requests in OpenAI's shape, and does not log them."""

    def __init__(self, server: "_Server", **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection if there is room for one more."""
        super().connection_made(transport)
        self._server.make_room(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget a connection."""
        self._head_ended()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes; until a request is complete they are those of its head."""
        super().data_received(data)
        if not self.idle:
            self._head_ended()
        elif self._head is None:
            self._head = self._loop.call_later(self._server.head_s(), self._late)

    @property
    def idle(self) -> bool:
        """Return whether it has no request."""
        if not self._request_count:
            return True
        return self._waiter is not None and not self._waiter.done()

    @property
    def idle_since_s(self) -> float:
        """Return the time of its last request, on a clock with any zero."""
        return self._next_keepalive_close_time

    def _head_ended(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _late(self) -> None:
        self._head = None
        if self.idle and self.transport is not None:
            self.transport.write(_late_head_answer())
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to data that is not valid HTTP."""
        response = error_response(
            ApiError(
                status,
                "The request is not valid HTTP.",
                code="invalid_http",
                request_id=new_id(),
            )
        )
        response.force_close()
        return response


class _Server(web.Server):
    def __init__(self, handler: Handler, settings: Callable[[], RouterSettings | None]) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=_HARD_HEADER_BYTES,
            max_field_size=_HARD_HEADER_BYTES,
        )
        self._settings = settings

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def head_s(self) -> float:
        """Return the time limit of a head from its first byte on."""
        settings = self._settings()
        return (settings.timeouts if settings is not None else TimeoutSettings()).head_s

    def make_room(self, newcomer: _Connection) -> None:
        """Close the connections that are idle for longest if there are too many.

        If none is idle, the new one closes.
        """
        settings = self._settings()
        limits = settings.limits if settings is not None else LimitSettings()
        most = _PER_REQUEST * limits.concurrent_requests + _BESIDES
        if len(self._connections) <= most:
            return
        idle = [
            one
            for one in self._connections
            if isinstance(one, _Connection) and one.idle and one is not newcomer
        ]
        idle.sort(key=lambda one: one.idle_since_s)
        for one in idle[: max(1, int(_CLOSED_AT_ONCE * most))] or [newcomer]:
            one.force_close()


async def listen(
    handler: Handler,
    *,
    host: str | None,
    port: int,
    settings: Callable[[], RouterSettings | None],
) -> tuple[web.ServerRunner, int]:
    """Serve `handler`; return the runner and its port."""

    async def named(request: web.BaseRequest) -> web.StreamResponse:
        response = await handler(request)
        if not response.prepared:
            response.headers["Server"] = SERVER
        return response

    runner = web.ServerRunner(_Server(named, settings))
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=2048)
    await site.start()
    return runner, int(runner.addresses[0][1])


def error_response(error: ApiError, *, anthropic: bool = False) -> web.Response:
    """Return the HTTP answer for `error`."""
    headers = {"Server": SERVER}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.allow is not None:
        headers["Allow"] = error.allow
    if error.request_id is not None:
        headers[HEADER] = error.request_id
    response = web.Response(
        status=error.status,
        body=error.body(anthropic=anthropic),
        content_type="application/json",
        headers=headers,
    )
    if error.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
        response.force_close()
    return response


def _late_head_answer() -> bytes:
    body = _LATE_HEAD.body()
    return (
        b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Server: %b\r\n%b: %b\r\nContent-Length: %d\r\n\r\n%b"
        % (SERVER.encode(), HEADER.encode(), new_id().encode(), len(body), body)
    )
