"""Receives messages of other routers of the pool, within limits.

A message from another sender, or an invalid one, changes nothing.
"""

import asyncio
import hmac
from collections.abc import Callable, Iterator
from typing import TypeVar

from aiohttp import web

from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.peers.computed import (
    COMPUTED_PATH,
    MOST_MESSAGE_BYTES,
    Computed,
    parse_computed,
)
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.notice import MOST_BYTES, Notice, NoticeError, parse_notice
from tandem_engine.router.peers.spent import MOST_SPENT_BYTES, SPENT_PATH, Spent, parse_spent
from tandem_engine.router.peers.telling import authorization

T = TypeVar("T")

_BODY_S = 1.0
_MOST_PER_S = 50
# Each of 31 others tells of its news of a kind twice a second.
_MOST_NEWS_PER_S = 80
# A millisecond or two, while no stream gets a token.
_MOST_MARKS_AT_ONCE = 1024


class Door:
    """Checks that a message comes from a router of the pool.

    Args:
        pool_key: the key of the pool; `None`: all messages are refused.
    """

    def __init__(
        self, *, pool_key: str | None, clock: Callable[[], float], most_per_s: int
    ) -> None:
        self._expected = authorization(pool_key).encode() if pool_key else None
        self._clock = clock
        self._most_per_s = most_per_s
        self._second = 0
        self._heard = 0

    def let_in(self, request: web.BaseRequest) -> None:
        """Return for a router of the pool, or raise `ApiError`."""
        if self._expected is None:
            raise ApiError(404, "This router has no key, so it accepts no notices.")
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not hmac.compare_digest(given, self._expected):
            raise ApiError(401, "Only routers of this pool may send notices.", code="no_key")
        second = int(self._clock())
        self._heard = self._heard + 1 if second == self._second else 1
        self._second = second
        if self._heard > self._most_per_s:
            raise ApiError(429, "Too many messages.", retry_after_s=1)


class Hearing:
    """Answers other routers of the pool.

    Args:
        pool_key: the key of the pool; `None`: all messages are refused.
        computed: receives the prompts that prefill pods computed for other routers.
        spent: receives what tenants asked for at other routers.
    """

    def __init__(
        self,
        *,
        killers: Killers,
        computed: Callable[[list[Computed]], None],
        spent: Callable[[list[Spent]], None],
        pool_key: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._killers = killers
        self._computed = computed
        self._spent = spent
        self._door = Door(pool_key=pool_key, clock=clock, most_per_s=_MOST_PER_S)
        self._doors = {
            path: Door(pool_key=pool_key, clock=clock, most_per_s=_MOST_NEWS_PER_S)
            for path in (COMPUTED_PATH, SPENT_PATH)
        }

    async def take_computed(self, request: web.BaseRequest) -> web.Response:
        """Handle another router's message about prompts."""
        prompts = await self._news(request, parse_computed, most_bytes=MOST_MESSAGE_BYTES)
        for few in _few_at_once(prompts):
            self._computed(few)
            await asyncio.sleep(0)
        return web.Response(status=204)

    async def take_spent(self, request: web.BaseRequest) -> web.Response:
        """Handle another router's message about tenants."""
        self._spent(await self._news(request, parse_spent, most_bytes=MOST_SPENT_BYTES))
        return web.Response(status=204)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Handle a notice (POST), or only return the known ends and answers (GET)."""
        self._door.let_in(request)
        if request.method == "GET":
            return _document(self._killers.known())
        if request.method != "POST":
            raise ApiError(405, "Use GET or POST.", allow="GET, POST")
        try:
            notice = parse_notice(await _body(request, most_bytes=MOST_BYTES))
        except NoticeError as error:
            raise ApiError(400, f"The body is not a valid notice: {error}") from error
        self._killers.hear(notice)
        return _document(self._killers.known(notice.digests))

    async def _news(
        self, request: web.BaseRequest, parse: Callable[[bytes], list[T]], *, most_bytes: int
    ) -> list[T]:
        self._doors[request.path].let_in(request)
        if request.method != "POST":
            raise ApiError(405, "Use POST.", allow="POST")
        try:
            return parse(await _body(request, most_bytes=most_bytes))
        except NoticeError as error:
            raise ApiError(400, f"The body is not a valid notice: {error}") from error


def _few_at_once(prompts: list[Computed]) -> Iterator[list[Computed]]:
    few: list[Computed] = []
    marks = 0
    for each in prompts:
        marks += len(each.prefix.marks)
        if few and marks > _MOST_MARKS_AT_ONCE:
            yield few
            few, marks = [], len(each.prefix.marks)
        few.append(each)
    yield few


async def _body(request: web.BaseRequest, *, most_bytes: int) -> bytes:
    too_large = ApiError(413, f"A notice has at most {most_bytes} bytes.")
    if (request.content_length or 0) > most_bytes:
        raise too_large
    raw = b""
    try:
        async with asyncio.timeout(_BODY_S):
            async for data in request.content.iter_any():
                raw += data
                if len(raw) > most_bytes:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, "The notice did not arrive in time.") from None
    return raw


def _document(notice: Notice) -> web.Response:
    return web.Response(body=notice.document(), content_type="application/json")
