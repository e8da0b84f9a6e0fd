"""Messages to the other routers of the pool: about requests that end engines, and a start query.

Each router gets one message at a time; later news go with the next one. No request waits here for
longer than a moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp

from tandem_engine.router.peers.killers import Killers, derived
from tandem_engine.router.peers.notice import (
    MOST_BYTES,
    MOST_IN_A_NOTICE,
    Answer,
    End,
    Notice,
    NoticeError,
    parse_notice,
)

KILLERS_PATH = "/killers"
WAIT_S = 0.3
"""Longest wait of a request, after it ended an engine, until other routers know."""
_MESSAGE_S = 1.0
_EVERY_S = 0.5
_AGAIN_AFTER_S = (0.1, 1.0)
_MOST_ASKED = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another router of the pool, as discovery shows it."""

    name: str
    host: str
    port: int
    ready: bool = True

    def url(self, path: str) -> str:
        """Return the URL for its messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path}"


@dataclass(slots=True, eq=False)
class _News:
    """One news for one peer; `over` once the peer has it, or never will."""

    of: End | Answer
    since_s: float
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def now(self, now: float) -> End | Answer:
        if isinstance(self.of, End):
            return End(self.of.digest, self.of.pod, now - self.since_s)
        return Answer(self.of.digest, now - self.since_s)


class Peers:
    """Sends messages to the other routers of the pool; without the pool's key it sends none.

    Args:
        own_name: the name of this router, which is no peer.
    """

    def __init__(
        self,
        *,
        killers: Killers,
        pool_key: str | None,
        own_name: str,
        clock: Callable[[], float],
    ) -> None:
        self._killers = killers
        self._own_name = own_name
        self._clock = clock
        self._authorization = None if not pool_key else authorization(pool_key)
        self._peers: dict[str, Peer] = {}
        self._news: dict[str, list[_News]] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of the peers."""
        return sorted(self._peers)

    def replace(self, peers: Iterable[Peer]) -> None:
        """Replace the list of peers."""
        self._peers = {peer.name: peer for peer in peers if peer.name != self._own_name}
        for name in self._news.keys() - self._peers.keys():
            self._drop(name)
        if self._peers and self._asking is None and self._authorization is not None:
            self._asking = asyncio.create_task(self._ask())

    def tell_answered(self, digest: bytes) -> None:
        """Tell peers that a request was answered after engines had ended with it."""
        self._tell(Answer(digest, 0.0))

    async def tell_ended(self, digest: bytes, *, pod: str) -> None:
        """Tell peers that `pod` ended; return when they know, or after `WAIT_S`."""
        sent = [asyncio.ensure_future(news.over.wait()) for news in self._tell(End(digest, pod, 0))]
        if sent:
            _, late = await asyncio.wait(sent, timeout=WAIT_S)
            for each in late:
                each.cancel()

    async def tell_once(self, path: str, document: bytes) -> None:
        """Send all peers a document, once; a failed message is not repeated."""
        if self._authorization is not None:
            each = [self._took(peer, path, document) for peer in self._peers.values()]
            await asyncio.gather(*each)

    async def close(self) -> None:
        """Stop sending."""
        tasks = [*self._senders.values(), *([self._asking] if self._asking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _tell(self, what: End | Answer) -> list[_News]:
        if self._authorization is None:
            return []
        sent = []
        for name in self._peers:
            news = _News(what, self._clock())
            waiting = self._news.setdefault(name, [])
            if len(waiting) >= MOST_IN_A_NOTICE:
                waiting.pop(0).over.set()
            waiting.append(news)
            sent.append(news)
            if name not in self._senders:
                self._senders[name] = asyncio.create_task(self._send_all(name))
        return sent

    def _drop(self, name: str) -> None:
        for news in self._news.pop(name, ()):
            news.over.set()

    async def _send_all(self, name: str) -> None:
        """Send a peer its news, until none is left or it does not answer."""
        tries = 0
        while (peer := self._peers.get(name)) is not None and (waiting := self._news.get(name)):
            batch, now = list(waiting), self._clock()
            current = [news.now(now) for news in batch]
            notice = Notice(
                tuple(each for each in current if isinstance(each, End)),
                tuple(each for each in current if isinstance(each, Answer)),
            )
            if await self._heard(peer, notice):
                for news in batch:
                    news.over.set()
                    with suppress(ValueError):
                        waiting.remove(news)
                tries = 0
                continue
            if tries == len(_AGAIN_AFTER_S):
                logger.warning("another router does not hear of engine ends", extra={"peer": name})
                break
            await asyncio.sleep(_AGAIN_AFTER_S[tries])
            tries += 1
        # With what else there is for it in the same moment: nothing comes in between.
        self._drop(name)
        del self._senders[name]

    async def _ask(self) -> None:
        """Load earlier ends and answers from the first peer that responds."""
        for peer in sorted(self._peers.values(), key=lambda peer: not peer.ready)[:_MOST_ASKED]:
            if await self._heard(peer, None):
                return

    def _speaks(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=_MESSAGE_S),
                auto_decompress=False,
            )
        return self._session

    async def _took(self, peer: Peer, path: str, document: bytes) -> None:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with self._speaks().post(
                peer.url(path),
                data=document,
                headers={"Authorization": self._authorization or ""},
                allow_redirects=False,
            ):
                # A router of before does not know the path, and that changes nothing.
                pass

    async def _heard(self, peer: Peer, notice: Notice | None) -> bool:
        """Send to a peer or ask it, and store its knowledge; return whether it responded."""
        try:
            async with self._speaks().request(
                "GET" if notice is None else "POST",
                peer.url(KILLERS_PATH),
                data=None if notice is None else notice.document(),
                headers={"Authorization": self._authorization or ""},
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    return False
                raw = await response.content.read(MOST_BYTES + 1)
                while len(raw) <= MOST_BYTES and not response.content.at_eof():
                    raw += await response.content.read(MOST_BYTES + 1 - len(raw))
            if len(raw) <= MOST_BYTES:
                self._killers.hear(parse_notice(raw))
        except (aiohttp.ClientError, OSError, TimeoutError, NoticeError):
            return False
        return True


async def tell_often(
    news: Callable[[], bytes | None],
    send: Callable[[bytes], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Send news for ever, at most twice a second."""
    while True:
        await sleep(_EVERY_S)
        message = news()
        if message is not None:
            await send(message)


def authorization(pool_key: str) -> str:
    """Return the header by which routers of a pool recognise each other."""
    return f"Bearer {derived(pool_key, b'messages').hex()}"
