"""Background reads of the metrics of decode pods."""

import asyncio
import logging
import re
from collections.abc import Iterable

from tandem_engine.router.forwarding.flight import LearnedByRouter
from tandem_engine.router.forwarding.upstream import Upstream, UpstreamFailure
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Pod, Role

_SCRAPE_EVERY_S = 10.0
_SCRAPE_TIMEOUT_S = 5.0
_LARGEST_METRICS_BYTES = 8 * 1024 * 1024
_MOST_SANE = 1e12
_TRANSFER = re.compile(
    rb"^vllm:nixl_xfer_time_seconds_(sum|count)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE
)
_REQUESTS = re.compile(
    rb"^vllm:num_requests_(?:running|waiting)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE
)

logger = logging.getLogger(__name__)


class DecodeReads:
    """Learns from decode pods' metrics: mean KV transfer time, requests of other routers."""

    def __init__(self, *, fleet: EnginePods, upstream: Upstream, learned: LearnedByRouter) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._learned = learned
        self._seen: dict[str, tuple[float, float]] = {}
        self._unreadable: set[str] = set()

    async def run(self) -> None:
        """Scrape for ever."""
        while True:
            await self.scrape(self._fleet.usable(Role.DECODE))
            await asyncio.sleep(_SCRAPE_EVERY_S)

    async def scrape(self, pods: Iterable[Pod]) -> None:
        """Read each pod once, and learn the mean time of the transfers since the last read.

        Requests beyond those of this router came from another router of the pool.
        """
        grown_s = grown = 0.0
        seen: dict[str, tuple[float, float]] = {}
        for pod in pods:
            found = await self._read(pod)
            if found is None:
                pod.others = 0
                continue
            inside, totals = found
            pod.others = max(0, inside - pod.streams)
            if totals is None:
                continue
            before = self._seen.get(pod.name, (0.0, 0.0))
            if totals[0] < before[0] or totals[1] < before[1]:
                before = (0.0, 0.0)
            grown_s += totals[0] - before[0]
            grown += totals[1] - before[1]
            seen[pod.name] = totals
        self._seen = seen
        if grown > 0:
            self._learned.transfer_s = grown_s / grown
        # A request may wait for room that other routers' requests had.
        self._fleet.announce()

    async def _read(self, pod: Pod) -> tuple[int, tuple[float, float] | None] | None:
        """Return requests and transfer totals; `None` for values that the pod does not report."""
        try:
            text = await self._upstream.get(
                pod,
                path="/metrics",
                most_bytes=_LARGEST_METRICS_BYTES,
                timeout_s=_SCRAPE_TIMEOUT_S,
            )
        except UpstreamFailure:
            return None
        try:
            found = requests_inside(text), transfer_totals(text)
        except ValueError:
            if pod.name not in self._unreadable:
                logger.warning("metrics of an engine pod are broken", extra={"pod": pod.name})
            self._unreadable.add(pod.name)
            return None
        self._unreadable.discard(pod.name)
        return found


def requests_inside(text: bytes) -> int:
    """Return the running and waiting requests of an engine; none if it does not report them.

    Raises `ValueError` for a value that is not a number of requests.
    """
    return round(sum(map(_amount, _REQUESTS.findall(text))))


def transfer_totals(text: bytes) -> tuple[float, float] | None:
    """Return sum and count of the transfer histogram over all its series; `None` without it.

    Raises `ValueError` for a value that is not a number of seconds or transfers.
    """
    totals: dict[bytes, float] = {}
    for name, value in _TRANSFER.findall(text):
        totals[name] = totals.get(name, 0.0) + _amount(value)
    if len(totals) < 2:
        return None
    return totals[b"sum"], totals[b"count"]


def _amount(value: bytes) -> float:
    amount = float(value)
    if not 0 <= amount <= _MOST_SANE:
        raise ValueError(f"a number from 0 to {_MOST_SANE} was expected, found {amount}")
    return amount
