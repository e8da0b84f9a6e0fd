"""The direct source: reads routers and Ready engine pods themselves, within their pool's budget.

Pods that were silent at the last look are read after the others: they may use up the time.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import aiohttp

from tandem_operator.core.observation import EngineSample, Latency, RouterReport, StartUp
from tandem_operator.metrics.fetch import Fetcher, lines_of
from tandem_operator.metrics.router_arrivals import parse_arrivals
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
from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.metrics.source import (
    LATENCY_WINDOW_S,
    EngineTarget,
    Reading,
    RouterTarget,
    Targets,
    base_url,
)
from tandem_operator.metrics.start_up import parse_start_up

START_UP_ASKED = 10
"""Number of times that a silent engine is asked for its start-up measurement."""
START_UP_TIMEOUT_S = 0.5
"""Time for such an answer: a tick waits less for a first guess than for data that it needs."""
TIMEOUT_S = 3.0
REPORT_LIMIT_BYTES = 1024 * 1024
"""Largest report: twenty busy minutes and two thousand pods take half of it."""
INFO_LIMIT_BYTES = 256 * 1024

T = TypeVar("T")
Target = TypeVar("Target", bound=EngineTarget | RouterTarget)
Histograms = dict[str, Buckets]
History = deque[tuple[float, Histograms]]

_ENGINE_LINES, _ROUTER_LINES = lines_of(ENGINE_METRICS), lines_of(ROUTER_METRICS)
_ROUTER_NAMES = [("name[]", name) for name in ROUTER_METRICS]


class DirectSource:
    """A `MetricSource` that scrapes pods, and the only reader of a router's `/arrivals`."""

    def __init__(self, session: aiohttp.ClientSession, *, timeout_s: float = TIMEOUT_S) -> None:
        self._fetcher = Fetcher(session)
        self._timeout_s = timeout_s
        self._silent: dict[tuple[str, str], set[str]] = {}
        self._histories: dict[tuple[str, str], dict[str, History]] = {}
        self._start_ups: dict[tuple[str, str], tuple[dict[str, StartUp], Counter[str]]] = {}

    async def read(
        self, targets: Targets, *, now_s: float, budget: ScrapeBudget | None = None
    ) -> Reading:
        """Return engines' load and routers' latency in the recent window."""
        budget = budget or budget_of(targets)
        (engines, engine_problems), (latency, router_problems) = await asyncio.gather(
            self.engines(targets, now_s=now_s, budget=budget),
            self.latency(targets, now_s=now_s, budget=budget),
        )
        return Reading(engines, latency, (*engine_problems, *router_problems))

    async def reports(
        self, targets: Targets, *, now_s: float, budget: ScrapeBudget | None = None
    ) -> tuple[tuple[RouterReport, ...], tuple[str, ...]]:
        """Return every router's arrivals, named after its pod, and why some are missing."""
        asked = _Asked(targets, budget or budget_of(targets))
        return await _gather(
            self._report(router, asked, now_s=now_s)
            for router in self._in_order(targets.routers, asked)
        )

    async def start_ups(
        self, targets: Targets, *, budget: ScrapeBudget | None = None
    ) -> Mapping[str, StartUp]:
        """Return the engines' own measurements by pod; they never change, so each is read once.

        They are only first guesses, so an engine without an answer is no problem to report.
        """
        asked = _Asked(targets, budget or budget_of(targets))
        known, times = self._start_ups.setdefault(asked.pool, ({}, Counter()))
        for gone in (known.keys() | times.keys()) - {engine.pod for engine in targets.engines}:
            known.pop(gone, None)
            del times[gone]
        silent = self._silent.get(asked.pool, set())
        wanted = [
            engine
            for engine in targets.engines
            if engine.pod not in known.keys() | silent and times[engine.pod] < START_UP_ASKED
        ]
        times.update(engine.pod for engine in wanted)
        answers, _ = await _gather(self._start_up(engine, asked) for engine in wanted)
        known.update(answers)
        return known

    async def engines(
        self, targets: Targets, *, now_s: float, budget: ScrapeBudget | None = None
    ) -> tuple[tuple[EngineSample, ...], tuple[str, ...]]:
        """Return every engine's load, and why some are missing."""
        asked = _Asked(targets, budget or budget_of(targets))
        return await _gather(
            self._engine(engine, asked, now_s=now_s)
            for engine in self._in_order(targets.engines, asked)
        )

    async def latency(
        self, targets: Targets, *, now_s: float, budget: ScrapeBudget | None = None
    ) -> tuple[Latency | None, tuple[str, ...]]:
        """Return TTFT and TPOT of the window; unknown if any router's part of it is."""
        asked = _Asked(targets, budget or budget_of(targets))
        pages, problems = await _gather(
            self._histograms(router, asked) for router in self._in_order(targets.routers, asked)
        )
        window: dict[str, dict[float, float]] = {TTFT_BUCKET: {}, TPOT_BUCKET: {}}
        complete = bool(targets.routers) and not problems
        histories = self._histories.setdefault(asked.pool, {})
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
        for kept in (self._silent, self._histories, self._start_ups):
            kept.pop((namespace, pool), None)

    async def _report(self, router: RouterTarget, asked: "_Asked", *, now_s: float) -> RouterReport:
        url = f"{base_url(router.host, router.port)}/arrivals"
        with self._noting_silence(router.pod, asked):
            raw = await self._fetcher.whole(
                url,
                of=router.pod,
                budget=asked.budget,
                limit_bytes=REPORT_LIMIT_BYTES,
                limit_s=self._timeout_s,
            )
        report = await asked.budget.read(partial(parse_arrivals, raw, now_s=now_s), of=router.pod)
        # The name that a router gives itself would not surely distinguish it from another pod.
        return replace(report, router=router.pod)

    async def _engine(self, engine: EngineTarget, asked: "_Asked", *, now_s: float) -> EngineSample:
        def parse() -> EngineSample | None:
            samples = parse_page(raw.decode("utf-8", "replace"), wanted=ENGINE_METRICS)
            return engine_sample(samples, pod=engine.pod, role=engine.role, sampled_s=now_s)

        url = f"{base_url(engine.host, engine.port)}/metrics"
        with self._noting_silence(engine.pod, asked):
            raw = await self._fetcher.lines(
                url,
                of=engine.pod,
                budget=asked.budget,
                wanted=_ENGINE_LINES,
                limit_s=self._timeout_s,
            )
        found = await asked.budget.read(parse, of=engine.pod)
        if found is None:
            raise NoAnswerError(f"{engine.pod}: its page shows no load of an engine")
        return found

    async def _start_up(self, engine: EngineTarget, asked: "_Asked") -> tuple[str, StartUp]:
        raw = await self._fetcher.whole(
            f"{base_url(engine.host, engine.control_port)}/info",
            of=engine.pod,
            budget=asked.budget,
            limit_bytes=INFO_LIMIT_BYTES,
            limit_s=START_UP_TIMEOUT_S,
        )
        return engine.pod, await asked.budget.read(partial(parse_start_up, raw), of=engine.pod)

    async def _histograms(self, router: RouterTarget, asked: "_Asked") -> tuple[str, Histograms]:
        def parse() -> Histograms:
            samples = parse_page(raw.decode("utf-8", "replace"), wanted=ROUTER_METRICS)
            found: Histograms = {}
            for name in ROUTER_METRICS:
                buckets = buckets_of(samples, name)
                if buckets is None:
                    raise NoAnswerError(f"{router.pod}: its page shows no {name}")
                found[name] = buckets
            return found

        url = f"{base_url(router.host, router.port)}/metrics"
        raw = await self._fetcher.lines(
            url,
            of=router.pod,
            budget=asked.budget,
            wanted=_ROUTER_LINES,
            limit_s=self._timeout_s,
            # The needed lines are a fifth of its page; an older router sends the whole page.
            query=_ROUTER_NAMES,
        )
        return router.pod, await asked.budget.read(parse, of=router.pod)

    def _in_order(self, targets: Iterable[Target], asked: "_Asked") -> list[Target]:
        silent = self._silent.setdefault(asked.pool, set())
        silent &= asked.pods
        return sorted(targets, key=lambda target: target.pod in silent)

    @contextmanager
    def _noting_silence(self, pod: str, asked: "_Asked") -> Iterator[None]:
        """Remember until the next look whether the pod answered."""
        silent = self._silent.setdefault(asked.pool, set())
        try:
            yield
        except NoAnswerError:
            silent.add(pod)
            raise
        silent.discard(pod)


class _Asked:
    """The reads of one pool at one look."""

    def __init__(self, targets: Targets, budget: ScrapeBudget) -> None:
        self.pool = (targets.namespace, targets.pool)
        self.pods = {engine.pod for engine in targets.engines}
        self.pods |= {router.pod for router in targets.routers}
        self.budget = budget


def budget_of(targets: Targets) -> ScrapeBudget:
    """Return the budget of a look at these targets."""
    return ScrapeBudget(pods=len(targets.engines) + len(targets.routers))


def _gained(history: History, page: Histograms, *, now_s: float) -> Histograms | None:
    """Return the growth of a router's histograms over the window; `None` before two readings."""
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
    """Return answers and problems of many pods at once."""
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
