"""The requests of the last 20 minutes, one by one: times, sizes, and common beginnings.

It holds times and counts, never content, and no names but those that the pool gives tenants. Age,
number and bytes bound it. It drops the oldest requests first, and reports the time from which it is
complete.
"""

import base64
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Any

from tandem_engine.router.openai.prefixes import CHUNK_BYTES
from tandem_routing.history import HISTORY_S

MOST_REQUESTS = 100_000
MOST_BYTES = 16 * 1024 * 1024
MOST_ROWS = 1000
"""Rows of one page: they take a few milliseconds, in which no stream gets a token."""
COLUMNS = ("arrived_s", "prompt_tokens", "cached_tokens", "output_tokens", "whole", "marks")

# Arrival, end, prompt, cached, output, whole, tenant. A tuple of as many objects takes four times
# the room.
_ROW = Struct("<ddIIIBH")
# What a bytes object and its place in the queue take besides.
_BESIDES_BYTES = 41
_MOST = 2**32 - 1
_UNKNOWN = _MOST
_MOST_NAMES = 2**16


@dataclass(frozen=True, slots=True)
class RecentRequest:
    """One request. `output_tokens` is the total if the answer is `whole`, else those so far.

    `tenant` is the name that reports have for its tenant; empty: the pool has no tenants.
    """

    arrived_s: float
    prompt_tokens: int
    cached_tokens: int | None = None
    output_tokens: int = 0
    whole: bool = False
    marks: bytes = b""
    tenant: str = ""

    def row(self) -> list[Any]:
        """Return the row of a page, by `COLUMNS`."""
        return [
            round(self.arrived_s, 4),
            self.prompt_tokens,
            self.cached_tokens,
            self.output_tokens,
            self.whole,
            base64.b64encode(self.marks).decode(),
        ]


class Recent:
    """The content of `/requests`."""

    def __init__(
        self,
        *,
        router: str,
        wall: Callable[[], float],
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._router = router
        self._wall = wall
        self._most_requests = most_requests
        self._most_bytes = most_bytes
        self._complete_since_s = wall()
        self._tenants = _Names()
        self._rows: deque[bytes] = deque()
        self._bytes = 0
        self._first = 0

    def ended(self, seen: RecentRequest) -> None:
        """Add a request that just ended."""
        now_s = self._wall()
        cached = _UNKNOWN if seen.cached_tokens is None else min(seen.cached_tokens, _MOST - 1)
        counts = (min(seen.prompt_tokens, _MOST), cached, min(seen.output_tokens, _MOST))
        tenant = self._tenants.number(seen.tenant)
        row = _ROW.pack(seen.arrived_s, now_s, *counts, seen.whole, tenant) + seen.marks
        self._rows.append(row)
        self._bytes += len(row) + _BESIDES_BYTES
        self._forget(now_s)

    def page(
        self,
        after: int,
        *,
        most_rows: int = MOST_ROWS,
        inside: Callable[[], Iterable[RecentRequest]],
    ) -> dict[str, Any]:
        """Return the rows from number `after` on; the last page also has those still `inside`.

        Each request that was known at the last page is on exactly one page.
        """
        now_s = self._wall()
        self._forget(now_s)
        start = max(0, after - self._first)
        end = min(len(self._rows), start + most_rows)
        is_last = end == len(self._rows)
        ended = [self._unpacked(self._rows[place]) for place in range(start, end)]
        still = list(inside()) if is_last else []
        return {
            "schema": 1,
            "router": self._router,
            "now_s": now_s,
            "complete_since_s": self._complete_since_s,
            "chunk_bytes": CHUNK_BYTES,
            "columns": list(COLUMNS),
            "rows": [seen.row() for seen in ended],
            "inside": [seen.row() for seen in still],
            "next": None if is_last else self._first + end,
            **_tenants(ended, still),
        }

    def _forget(self, now_s: float) -> None:
        while self._rows:
            _, ended_s, *_ = _ROW.unpack_from(self._rows[0])
            full = len(self._rows) > self._most_requests or self._bytes > self._most_bytes
            if not full and ended_s > now_s - HISTORY_S:
                return
            self._bytes -= len(self._rows.popleft()) + _BESIDES_BYTES
            self._first += 1
            # A request that arrived later also ended later.
            self._complete_since_s = max(self._complete_since_s, ended_s)

    def _unpacked(self, row: bytes) -> RecentRequest:
        arrived_s, _, prompt, cached, output, whole, tenant = _ROW.unpack_from(row)
        return RecentRequest(
            arrived_s=arrived_s,
            prompt_tokens=prompt,
            cached_tokens=None if cached == _UNKNOWN else cached,
            output_tokens=output,
            whole=bool(whole),
            marks=row[_ROW.size :],
            tenant=self._tenants.name(tenant),
        )


def _tenants(ended: list[RecentRequest], still: list[RecentRequest]) -> dict[str, list[str]]:
    """Return the tenants of both lists of a page; without tenants, the page has none."""
    if not any(seen.tenant for seen in (*ended, *still)):
        return {}
    return {
        "row_tenants": [seen.tenant for seen in ended],
        "inside_tenants": [seen.tenant for seen in still],
    }


class _Names:
    """Numbers for names. Edits of a pool bring new names; beyond the most, a name is forgotten."""

    def __init__(self) -> None:
        self._numbers = {"": 0}
        self._names = [""]

    def number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is not None:
            return number
        if len(self._names) >= _MOST_NAMES:
            return 0
        self._numbers[name] = len(self._names)
        self._names.append(name)
        return self._numbers[name]

    def name(self, number: int) -> str:
        return self._names[number]
