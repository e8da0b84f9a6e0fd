"""A small read-only client of the Kubernetes API: list, then watch, for ever.

While the API server is away, it reports nothing, so its listeners keep the last known state.
"""

import asyncio
import json
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

_FIRST_BACKOFF_S = 0.2
_LONGEST_BACKOFF_S = 15.0
_WATCH_S = (45, 75)
_BETWEEN_WATCHES_S = (0.05, 0.2)
# The server ends a watch after the seconds asked for; silence beyond that is a dead connection.
_SILENCE_MARGIN_S = 15.0
_LIST_TIMEOUT_S = 30.0
_LARGEST_LINE_BYTES = 8 * 1024 * 1024

logger = logging.getLogger(__name__)


class Expired(Exception):  # noqa: N818 - the API's own word
    """The resource version is too old (410): list again."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The address of the API server and the credentials; the token is read for each request."""

    url: str
    token_path: Path
    ca_path: Path

    def headers(self) -> dict[str, str]:
        """Return the present credentials."""
        token = self.token_path.read_text(encoding="ascii").strip()
        return {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS context of the cluster's own CA, read again at each listing."""
        if not self.url.startswith("https:"):
            return True
        return ssl.create_default_context(cafile=str(self.ca_path))


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for each listing, each later change, and a forbidden listing."""

    listed: Callable[[list[dict[str, Any]]], None]
    changed: Callable[[str, dict[str, Any]], None]
    refused: Callable[[], None] = lambda: None


class ObjectWatch:
    """Watches the objects of one path and selector."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession,
        server: ApiServer,
        path: str,
        selector: Mapping[str, str],
        listeners: Listeners,
    ) -> None:
        self._session = session
        self._server = server
        self._path = path
        self._selector = dict(selector)
        self._listeners = listeners

    async def run(self) -> None:
        """List and watch for ever, with backoff and jitter while the server does not answer."""
        failures = 0
        version: str | None = None
        while True:
            try:
                tls = self._server.tls()
                if version is None:
                    version = await self._list(tls)
                async for seen in self._changes(version, tls):
                    version = seen
                    self._say_recovered(failures)
                    failures = 0
                await asyncio.sleep(random.uniform(*_BETWEEN_WATCHES_S))
            except Expired:
                version = None
            except (aiohttp.ClientError, OSError, ValueError, KeyError) as error:
                failures += 1
                if failures == 1:
                    logger.warning(
                        "watch interrupted; the last known state stays in force",
                        extra={"path": self._path, "why": type(error).__name__},
                    )
                longest = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(failures, 10))
                await asyncio.sleep(random.uniform(_FIRST_BACKOFF_S / 2, longest))
                # A list costs little and heals whatever a lost watch missed.
                version = None

    def _say_recovered(self, failures: int) -> None:
        if failures:
            logger.info("watch resumed", extra={"path": self._path, "failures": failures})

    async def _list(self, tls: ssl.SSLContext | bool) -> str:
        timeout = aiohttp.ClientTimeout(total=_LIST_TIMEOUT_S)
        async with self._session.get(
            self._server.url + self._path,
            params=self._selector,
            headers=self._server.headers(),
            ssl=tls,
            timeout=timeout,
        ) as response:
            if response.status == 403:
                self._listeners.refused()
            response.raise_for_status()
            document = json.loads(await response.read())
        self._listeners.listed(document.get("items") or [])
        return str(document["metadata"]["resourceVersion"])

    async def _changes(self, version: str, tls: ssl.SSLContext | bool) -> AsyncIterator[str]:
        """Yield the newest resource version: once the watch is open, and after each event."""
        seconds = random.randint(*_WATCH_S)
        params = {
            **self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_LIST_TIMEOUT_S, sock_read=seconds + _SILENCE_MARGIN_S
        )
        async with self._session.get(
            self._server.url + self._path,
            params=params,
            headers=self._server.headers(),
            ssl=tls,
            timeout=timeout,
        ) as response:
            if response.status == 410:
                raise Expired
            response.raise_for_status()
            yield version
            rest = b""
            async for data in response.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LARGEST_LINE_BYTES:
                    raise ValueError("a watch event is too long")
                for line in lines:
                    if line.strip():
                        version = self._take(json.loads(line), version)
                        yield version

    def _take(self, event: dict[str, Any], version: str) -> str:
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            if item.get("code") == 410:
                raise Expired
            raise ValueError("the API server ended the watch with an error")
        if kind != "BOOKMARK":
            self._listeners.changed(kind, item)
        return str(item["metadata"].get("resourceVersion", version))
