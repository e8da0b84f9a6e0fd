"""The doorbells of pools at zero: the operator hears of a request at once, without polling.

Each router of such a pool holds one request of the operator until a client comes. A pass then reads
its usual input: the doorbell only says when to look. If no router answers, the ordinary passes find
the request some seconds later.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import aiohttp

from tandem_contracts.names import ARRIVAL_PATH, ARRIVAL_WAIT_S
from tandem_operator.metrics.source import RouterTarget, base_url

AGAIN_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=ARRIVAL_WAIT_S + 10.0, connect=3.0)
K = TypeVar("K", bound=Hashable)


class Doorbells(Generic[K]):
    """One waiting query for each router of each pool at zero; `ring` names the pool to look at.

    Args:
        session: session for addresses of pods.
        ring: called with a pool once a request came to it.
        again_s: time until the next query to a router without a valid answer.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        ring: Callable[[K], None],
        again_s: float = AGAIN_S,
    ) -> None:
        self._session = session
        self._ring = ring
        self._again_s = again_s
        self._waiting: dict[K, dict[str, asyncio.Task[None]]] = {}

    def listen(self, key: K, routers: Iterable[RouterTarget]) -> None:
        """Listen to these routers of a pool from now on, and to no others; none: it is awake."""
        wanted = {f"{base_url(each.host, each.port)}{ARRIVAL_PATH}" for each in routers}
        waiting = self._waiting.pop(key, {})
        for url in [url for url, task in waiting.items() if url not in wanted or task.done()]:
            waiting.pop(url).cancel()
        for url in wanted - waiting.keys():
            waiting[url] = asyncio.create_task(self._hear(key, url), name=f"arrival at {url}")
        if waiting:
            self._waiting[key] = waiting

    async def close(self) -> None:
        """Stop listening to all routers."""
        tasks = [task for each in self._waiting.values() for task in each.values()]
        self._waiting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self, key: K, url: str) -> None:
        while True:
            status = await self._asked(url)
            if status == 200:
                self._ring(key)
                return
            if status != 204:
                await asyncio.sleep(self._again_s)

    async def _asked(self, url: str) -> int | None:
        try:
            async with self._session.get(url, allow_redirects=False, timeout=_TIMEOUT) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
