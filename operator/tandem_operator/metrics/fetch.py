"""The reader of addresses that a pool's author chose: bounded, without redirects or decompression.

A compressed answer is refused: a few kilobytes could become gigabytes. A token goes only to its own
server, because no redirect is followed.
"""

import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import aiohttp

from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.metrics.sessions import RefusedAddressError

CHUNK_BYTES = 16 * 1024
LONGEST_LINE_BYTES = 2048
MOST_LINES = 2048
PAGE_LIMIT_BYTES = 2 * 1024 * 1024
_PLAIN = {"Accept-Encoding": "identity"}
Query = Mapping[str, str] | Sequence[tuple[str, str]]
_REFUSALS = {
    401: "since it takes no request without the right token",
    403: "since the token or the tenant may not read it",
}


def lines_of(names: Sequence[str]) -> re.Pattern[bytes]:
    """Return a pattern for lines of a metrics page with one of these names."""
    either = "|".join(re.escape(name) for name in names)
    return re.compile(rf"^(?:{either})[{{ ].*$".encode(), re.MULTILINE)


class Fetcher:
    """A reader of whole answers, or of the few needed lines of a page, each within a budget."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        headers: Mapping[str, str] | None = None,
        authorities: ssl.SSLContext | None = None,
    ) -> None:
        self._session = session
        self._headers = {**(headers or {}), **_PLAIN}
        self._ssl = True if authorities is None else authorities

    async def whole(
        self,
        url: str,
        *,
        of: str,
        budget: ScrapeBudget,
        limit_bytes: int,
        limit_s: float,
        query: Query | None = None,
    ) -> bytes:
        """Return an answer of at most so many bytes. `of` names the source in a problem."""
        parts = bytearray()
        async with self._answer(url, of=of, budget=budget, limit_s=limit_s, query=query) as chunks:
            async for chunk in chunks:
                parts += chunk
                if len(parts) > limit_bytes:
                    raise NoAnswerError(f"{of}: {_path(url)} is larger than {limit_bytes} B")
        return bytes(parts)

    async def lines(
        self,
        url: str,
        *,
        of: str,
        budget: ScrapeBudget,
        wanted: re.Pattern[bytes],
        limit_s: float,
        query: Query | None = None,
    ) -> bytes:
        """Return the wanted lines of a metrics page: an engine's has thousands, nine are needed."""
        kept: list[bytes] = []
        rest, size = b"", 0
        async with self._answer(url, of=of, budget=budget, limit_s=limit_s, query=query) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if size > PAGE_LIMIT_BYTES:
                    raise NoAnswerError(f"{of}: {_path(url)} is larger than {PAGE_LIMIT_BYTES} B")
                if newline:
                    kept += wanted.findall(whole)
                elif len(rest) > PAGE_LIMIT_BYTES // 8:
                    raise NoAnswerError(f"{of}: {_path(url)} has a line without end")
                if len(kept) > MOST_LINES:
                    raise NoAnswerError(f"{of}: {_path(url)} has more than {MOST_LINES} series")
        kept += wanted.findall(rest)
        if any(len(line) > LONGEST_LINE_BYTES for line in kept):
            raise NoAnswerError(f"{of}: {_path(url)} has a line over {LONGEST_LINE_BYTES} B")
        return b"\n".join(kept) + b"\n"

    @asynccontextmanager
    async def _answer(
        self,
        url: str,
        *,
        of: str,
        budget: ScrapeBudget,
        limit_s: float,
        query: Query | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the chunks of a plain answer with status 200; any failure is a `NoAnswerError`."""
        path = _path(url)
        took_s = limit_s
        try:
            async with (
                budget.asking(of, limit_s=limit_s) as took_s,
                self._session.get(
                    url,
                    params=query,
                    headers=self._headers,
                    ssl=self._ssl,
                    allow_redirects=False,
                    auto_decompress=False,
                    read_bufsize=CHUNK_BYTES,
                ) as answer,
            ):
                if answer.status != 200:
                    raise NoAnswerError(f"{of}: {_status(answer.status)} from {path}")
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise NoAnswerError(
                        f"{of}: {path} is compressed, but Tandem asked for plain text"
                    )
                yield _spent(answer, lambda size: budget.spend(size, of=of))
        except TimeoutError:
            raise NoAnswerError(f"{of}: no answer from {path} in {took_s:.2g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            why = getattr(error.certificate_error, "verify_message", "") or "it is not valid"
            raise NoAnswerError(f"{of}: its certificate is refused: {why}") from None
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, RefusedAddressError)
            why = str(error.os_error) if refused else f"{type(error).__name__} from {path}"
            raise NoAnswerError(f"{of}: {why}") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise NoAnswerError(f"{of}: {type(error).__name__} from {path}") from None


def _status(status: int) -> str:
    if 300 <= status <= 399:
        return f"HTTP {status}, a redirect, which is not followed,"
    why = _REFUSALS.get(status)
    return f"HTTP {status}" if why is None else f"HTTP {status}, {why},"


async def _spent(
    answer: aiohttp.ClientResponse, spend: Callable[[int], None]
) -> AsyncIterator[bytes]:
    async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
        spend(len(chunk))
        yield chunk


def _path(url: str) -> str:
    return url.partition("//")[2].partition("/")[2].join(("/", ""))
