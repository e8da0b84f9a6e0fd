"""Asking routers and ready engine pods themselves: bounded in time, size and concurrency."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import aiohttp

from tandem_operator.core.observation import EngineSample, Latency, RouterReport, StartUp
from tandem_operator.metrics.arrivals import parse_arrivals
from tandem_operator.metrics.samples import (
    ENGINE_METRICS,
    ROUTER_METRICS,
    TPOT_BUCKET,
    TTFT_BUCKET,
    Buckets,
    added,
    buckets_of,
    engine_sample,
    parse_page,
    quantiles,
)
from tandem_operator.metrics.source import (
    LATENCY_WINDOW_S,
    EngineTarget,
    Reading,
    RouterTarget,
    Targets,
)
from tandem_operator.metrics.start_up import parse_start_up

START_UP_ASKED = 10
"""How often an engine that does not answer is asked for its start-up measurement."""
START_UP_TIMEOUT_S = 0.5
"""A tick does not wait for a first guess as it does for what it cannot do without."""
TIMEOUT_S = 3.0
PAGE_LIMIT_BYTES = 8 * 1024 * 1024
CONCURRENT = 16

T = TypeVar("T")
Histograms = dict[str, Buckets]
History = deque[tuple[float, Histograms]]


class NoAnswerError(Exception):
    """A pod did not answer, or not with what was asked for."""


class DirectSource:
    """A `MetricSource` that scrapes pods, and the only way to a router's `/arrivals`."""

    def __init__(self, session: aiohttp.ClientSession, *, timeout_s: float = TIMEOUT_S) -> None:
        self._session = session
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(CONCURRENT)
        self._histories: dict[tuple[str, str], dict[str, History]] = {}
        self._start_ups: dict[tuple[str, str], tuple[dict[str, StartUp], Counter[str]]] = {}

    async def read(self, targets: Targets, *, now_s: float) -> Reading:
        """Engines' load and routers' latency of the recent window."""
        engines, engine_problems = await self.engines(targets, now_s=now_s)
        latency, router_problems = await self.latency(targets, now_s=now_s)
        return Reading(engines, latency, (*engine_problems, *router_problems))

    async def reports(
        self, targets: Targets, *, now_s: float
    ) -> tuple[tuple[RouterReport, ...], tuple[str, ...]]:
        """Every router's arrivals, named after its pod, and why some are missing."""
        return await _gather(self._report(router, now_s=now_s) for router in targets.routers)

    async def start_ups(self, targets: Targets) -> Mapping[str, StartUp]:
        """What engines measured of themselves, by pod: asked once, for it never changes.

        It is a first guess only: an engine that does not answer is no problem to tell of.
        """
        pool = (targets.namespace, targets.pool)
        known, asked = self._start_ups.setdefault(pool, ({}, Counter()))
        for gone in (known.keys() | asked.keys()) - {engine.pod for engine in targets.engines}:
            known.pop(gone, None)
            del asked[gone]
        wanted = [
            engine
            for engine in targets.engines
            if engine.pod not in known and asked[engine.pod] < START_UP_ASKED
        ]
        asked.update(engine.pod for engine in wanted)
        answers, _ = await _gather(self._start_up(engine) for engine in wanted)
        known.update(answers)
        return known

    async def engines(
        self, targets: Targets, *, now_s: float
    ) -> tuple[tuple[EngineSample, ...], tuple[str, ...]]:
        """Every engine's load, and why some are missing."""
        return await _gather(self._engine(engine, now_s=now_s) for engine in targets.engines)

    async def latency(
        self, targets: Targets, *, now_s: float
    ) -> tuple[Latency | None, tuple[str, ...]]:
        """TTFT and TPOT of the window; unknown if any router's part of it is."""
        pages, problems = await _gather(self._histograms(router) for router in targets.routers)
        window: dict[str, dict[float, float]] = {TTFT_BUCKET: {}, TPOT_BUCKET: {}}
        complete = bool(targets.routers) and not problems
        histories = self._histories.setdefault((targets.namespace, targets.pool), {})
        for gone in histories.keys() - {pod for pod, _ in pages}:
            del histories[gone]
        for pod, page in pages:
            gained = _gained(histories.setdefault(pod, deque()), page, now_s=now_s)
            if gained is None:
                complete = False
                continue
            for name, buckets in gained.items():
                total = window[name]
                for edge, count in buckets.items():
                    total[edge] = total.get(edge, 0.0) + count
        if not complete:
            return None, problems
        ttft, tpot = (quantiles(window[name]) for name in (TTFT_BUCKET, TPOT_BUCKET))
        return Latency(sampled_s=now_s, ttft=ttft, tpot=tpot), problems

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop the readings of a pool that is gone."""
        self._histories.pop((namespace, pool), None)
        self._start_ups.pop((namespace, pool), None)

    async def _report(self, router: RouterTarget, *, now_s: float) -> RouterReport:
        raw = await self._fetch(router.pod, router.host, router.port, "/arrivals")
        # By what a router calls itself it could not be told from one of another pod for sure.
        return replace(parse_arrivals(raw, now_s=now_s), router=router.pod)

    async def _engine(self, engine: EngineTarget, *, now_s: float) -> EngineSample:
        raw = await self._fetch(engine.pod, engine.host, engine.port, "/metrics")
        samples = parse_page(raw.decode("utf-8", "replace"), wanted=ENGINE_METRICS)
        found = engine_sample(samples, pod=engine.pod, role=engine.role, sampled_s=now_s)
        if found is None:
            raise NoAnswerError(f"{engine.pod}: its page shows no load of an engine")
        return found

    async def _start_up(self, engine: EngineTarget) -> tuple[str, StartUp]:
        try:
            async with asyncio.timeout(START_UP_TIMEOUT_S):
                raw = await self._fetch(engine.pod, engine.host, engine.control_port, "/info")
        except TimeoutError:
            raise NoAnswerError(f"{engine.pod}: no answer from /info") from None
        return engine.pod, parse_start_up(raw)

    async def _histograms(self, router: RouterTarget) -> tuple[str, Histograms]:
        raw = await self._fetch(router.pod, router.host, router.port, "/metrics")
        samples = parse_page(raw.decode("utf-8", "replace"), wanted=ROUTER_METRICS)
        found: Histograms = {}
        for name in ROUTER_METRICS:
            buckets = buckets_of(samples, name)
            if buckets is None:
                raise NoAnswerError(f"{router.pod}: its page shows no {name}")
            found[name] = buckets
        return router.pod, found

    async def _fetch(self, pod: str, host: str, port: int, path: str) -> bytes:
        address = f"[{host}]" if ":" in host else host
        url = f"http://{address}:{port}{path}"
        try:
            async with (
                self._slots,
                asyncio.timeout(self._timeout_s),
                self._session.get(url, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise NoAnswerError(f"{pod}: HTTP {answer.status} from {path}")
                parts = bytearray()
                async for part in answer.content.iter_chunked(65536):
                    parts += part
                    if len(parts) > PAGE_LIMIT_BYTES:
                        raise NoAnswerError(f"{pod}: {path} is larger than {PAGE_LIMIT_BYTES} B")
                return bytes(parts)
        except TimeoutError:
            raise NoAnswerError(f"{pod}: no answer from {path} in {self._timeout_s:g} s") from None
        except aiohttp.ClientError as error:
            raise NoAnswerError(f"{pod}: {type(error).__name__} from {path}") from None


def _gained(history: History, page: Histograms, *, now_s: float) -> Histograms | None:
    """What a router's histograms gained over the window, `None` until two readings exist."""
    while len(history) > 1 and history[1][0] <= now_s - LATENCY_WINDOW_S:
        history.popleft()
    gained: Histograms | None = None
    if history:
        changes = {name: added(history[0][1].get(name, {}), page[name]) for name in page}
        gained = {name: change for name, change in changes.items() if change is not None}
        if len(gained) < len(page):
            history.clear()
            gained = None
    history.append((now_s, page))
    return gained


async def _gather(asked: Iterable[Awaitable[T]]) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """Answers and problems of many pods at once."""
    results = await asyncio.gather(*asked, return_exceptions=True)
    answers, problems = [], []
    for result in results:
        if isinstance(result, NoAnswerError | ValueError):
            problems.append(str(result))
        elif isinstance(result, BaseException):
            raise result
        else:
            answers.append(result)
    return tuple(answers), tuple(problems)
