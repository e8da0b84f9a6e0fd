"""Sends a plan at its own pace, whatever the server does."""

import asyncio
import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

import aiohttp

from benchmarks.load.client import send
from benchmarks.load.plan import PlannedRequest
from benchmarks.load.record import Record


class LoadGenerator:
    """An async context that holds the connections of one client.

    `api_key` goes with every request, as clients of OpenAI's API send theirs.

    Attributes:
        in_flight: requests sent and not yet ended.
    """

    def __init__(
        self,
        *,
        url: str,
        model: str,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        record_path: Path | None = None,
        on_record: Callable[[Record], None] | None = None,
    ) -> None:
        self.in_flight = 0
        self._url = url.rstrip("/")
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
        self._timeout_s = timeout_s
        self._record_path = record_path
        self._record_file: TextIO | None = None
        self._on_record = on_record
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the connection pool and the record file."""
        if self._record_path is not None:
            self._record_path.parent.mkdir(parents=True, exist_ok=True)
            self._record_file = self._record_path.open("a")
        # No limit on connections: a limit would queue requests here and make the load closed-loop.
        # A new one for each request: every request stands for a client of its own, and several
        # routers behind one Service share the load. The only timeout is the request's, in `send`.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close both."""
        if self._session is not None:
            await self._session.close()
        if self._record_file is not None:
            self._record_file.close()

    async def run(self, plan: Iterable[PlannedRequest], *, traffic: str) -> list[Record]:
        """Send every request at its moment and return when the last one has ended."""
        return list(await asyncio.gather(*await self.send_all(plan, traffic=traffic)))

    async def send_all(
        self, plan: Iterable[PlannedRequest], *, traffic: str
    ) -> list[asyncio.Task[Record]]:
        """Return when the last request has been sent, with the tasks that read the answers."""
        loop = asyncio.get_running_loop()
        requests = list(plan)
        # A collection of a few hundred long prompts pauses the loop for longer than a token takes.
        gc.freeze()
        start = loop.time()
        tasks = []
        for planned in requests:
            await asyncio.sleep(start + planned.at_s - loop.time())
            late_s = max(0.0, loop.time() - start - planned.at_s)
            tasks.append(loop.create_task(self._one(planned, traffic=traffic, late_s=late_s)))
        return tasks

    async def _one(self, planned: PlannedRequest, *, traffic: str, late_s: float) -> Record:
        assert self._session is not None, "enter the generator with `async with` first"
        self.in_flight += 1
        try:
            record = await send(
                self._session,
                planned,
                url=self._url,
                model=self._model,
                traffic=traffic,
                late_s=late_s,
                timeout_s=self._timeout_s,
            )
        finally:
            self.in_flight -= 1
        if self._record_file is not None:
            self._record_file.write(record.to_json() + "\n")
            self._record_file.flush()
        if self._on_record is not None:
            self._on_record(record)
        return record
