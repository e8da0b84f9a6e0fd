"""Hears what other routers of the pool tell of requests that end engines, within bounds.

What is not from one of them, or is no notice, changes nothing.
"""

import asyncio
import hmac
from collections.abc import Callable

from aiohttp import web

from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.notice import MOST_BYTES, Notice, NoticeError, parse_notice
from tandem_engine.router.peers.telling import authorization

_BODY_S = 1.0
_MOST_PER_S = 50


class Hearing:
    """Answers other routers of the pool.

    Args:
        pool_key: what they know each other by; `None`: nobody is heard.
    """

    def __init__(
        self, *, killers: Killers, pool_key: str | None, clock: Callable[[], float]
    ) -> None:
        self._killers = killers
        self._expected = authorization(pool_key).encode() if pool_key else None
        self._clock = clock
        self._second = 0
        self._heard = 0

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Take a notice (POST), or only tell what is known (GET)."""
        self._let_in(request)
        if request.method == "GET":
            return _document(self._killers.known())
        if request.method != "POST":
            raise ApiError(405, "Use GET or POST.", allow="GET, POST")
        try:
            notice = parse_notice(await _body(request))
        except NoticeError as error:
            raise ApiError(400, f"The body is not a valid notice: {error}") from error
        self._killers.hear(notice)
        return _document(self._killers.known(notice.digests))

    def _let_in(self, request: web.BaseRequest) -> None:
        if self._expected is None:
            raise ApiError(404, "This router has no key, so it accepts no notices.")
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, self._expected):
            raise ApiError(401, "Only routers of this pool may send notices.", code="no_key")
        second = int(self._clock())
        self._heard = self._heard + 1 if second == self._second else 1
        self._second = second
        if self._heard > _MOST_PER_S:
            raise ApiError(429, "Too many messages.", retry_after_s=1)


async def _body(request: web.BaseRequest) -> bytes:
    too_large = ApiError(413, f"A notice has at most {MOST_BYTES} bytes.")
    if (request.content_length or 0) > MOST_BYTES:
        raise too_large
    raw = b""
    try:
        async with asyncio.timeout(_BODY_S):
            async for data in request.content.iter_any():
                raw += data
                if len(raw) > MOST_BYTES:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, "The notice did not arrive in time.") from None
    return raw


def _document(notice: Notice) -> web.Response:
    return web.Response(body=notice.document(), content_type="application/json")
