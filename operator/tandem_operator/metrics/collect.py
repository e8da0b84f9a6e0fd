"""One pool's metrics at one tick, from the source its spec asks for.

`/arrivals` is always asked directly: only the router has one-second history, and no scrape interval
may blur it. So is what an engine measured of itself, which is asked once.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp

from tandem_operator.api.v1alpha1.scaling import Metrics, MetricsSource
from tandem_operator.core.observation import EngineSample, Latency, RouterReport
from tandem_operator.metrics.departed import Departed
from tandem_operator.metrics.direct import DirectSource, budget_of
from tandem_operator.metrics.prometheus import PrometheusSource
from tandem_operator.metrics.scrape_budget import ScrapeBudget
from tandem_operator.metrics.source import Reading, Targets

MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Collected:
    """A tick's metrics, which source gave them, and what is missing.

    Attributes:
        ready: Ready engine pods by role.
        age_s: of the oldest engine sample; `None` without any.
        passed_over: why Prometheus was not used although the spec names one; `None` if it was.
    """

    engines: tuple[EngineSample, ...]
    routers: tuple[RouterReport, ...]
    latency: Latency | None
    source: MetricsSource
    problems: tuple[str, ...]
    ready: Mapping[str, int]
    age_s: float | None
    passed_over: str | None = None


class Collector:
    """Reads metrics of all pools, each within a budget of its own.

    Args:
        pods: for addresses of pods.
        servers: for Prometheus servers, which pool authors name.
    """

    def __init__(self, pods: aiohttp.ClientSession, *, servers: aiohttp.ClientSession) -> None:
        self._direct = DirectSource(pods)
        self._departed = Departed()
        self._servers = servers

    async def collect(self, targets: Targets, wanted: Metrics, *, now_s: float) -> Collected:
        """Everything that routers and engines of one pool say now."""
        budget = budget_of(targets)
        (routers, missing), (reading, source, passed_over), start_ups = await asyncio.gather(
            self._direct.reports(targets, now_s=now_s, budget=budget),
            self._read(targets, wanted, now_s=now_s, budget=budget),
            self._direct.start_ups(targets, budget=budget),
        )
        problems = (*missing, *reading.problems)
        return Collected(
            engines=tuple(replace(e, start_up=start_ups.get(e.pod)) for e in reading.engines),
            routers=self._departed.add(targets, routers, now_s=now_s),
            latency=reading.latency,
            source=source,
            problems=_few(problems),
            ready=Counter(engine.role.value for engine in targets.engines),
            age_s=reading.oldest_s(now_s=now_s),
            passed_over=passed_over,
        )

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._direct.forget(namespace=namespace, pool=pool)
        self._departed.forget(namespace=namespace, pool=pool)

    async def _read(
        self, targets: Targets, wanted: Metrics, *, now_s: float, budget: ScrapeBudget
    ) -> tuple[Reading, MetricsSource, str | None]:
        passed_over = None
        if wanted.source is not MetricsSource.DIRECT and wanted.prometheus is not None:
            server = PrometheusSource(self._servers, wanted.prometheus.url)
            reading = await server.read(targets, now_s=now_s, budget=budget)
            if wanted.source is MetricsSource.PROMETHEUS or not reading.problems:
                return reading, MetricsSource.PROMETHEUS, None
            passed_over = reading.problems[0]
        direct = await self._direct.read(targets, now_s=now_s, budget=budget)
        return direct, MetricsSource.DIRECT, passed_over


def _few(problems: tuple[str, ...]) -> tuple[str, ...]:
    """As many as a log line holds."""
    if len(problems) <= MOST_PROBLEMS:
        return problems
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more")
