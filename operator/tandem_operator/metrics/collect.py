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
from tandem_operator.metrics.direct import DirectSource
from tandem_operator.metrics.prometheus import PrometheusSource
from tandem_operator.metrics.source import MetricSource, Reading, Targets


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
    """Reads metrics of all pools; keeps one Prometheus client per server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._direct = DirectSource(session)
        self._departed = Departed()
        self._prometheus: dict[str, PrometheusSource] = {}

    async def collect(self, targets: Targets, wanted: Metrics, *, now_s: float) -> Collected:
        """Everything that routers and engines of one pool say now."""
        (routers, missing), start_ups, (reading, source, passed_over) = await asyncio.gather(
            self._direct.reports(targets, now_s=now_s),
            self._direct.start_ups(targets),
            self._read(targets, wanted, now_s=now_s),
        )
        return Collected(
            engines=tuple(replace(e, start_up=start_ups.get(e.pod)) for e in reading.engines),
            routers=self._departed.add(targets, routers, now_s=now_s),
            latency=reading.latency,
            source=source,
            problems=(*missing, *reading.problems),
            ready=Counter(engine.role.value for engine in targets.engines),
            age_s=reading.oldest_s(now_s=now_s),
            passed_over=passed_over,
        )

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._direct.forget(namespace=namespace, pool=pool)
        self._departed.forget(namespace=namespace, pool=pool)

    def close(self) -> None:
        """Close all Prometheus clients."""
        for source in self._prometheus.values():
            source.close()

    async def _read(
        self, targets: Targets, wanted: Metrics, *, now_s: float
    ) -> tuple[Reading, MetricsSource, str | None]:
        if wanted.source is MetricsSource.DIRECT or wanted.prometheus is None:
            return await self._direct.read(targets, now_s=now_s), MetricsSource.DIRECT, None
        prometheus: MetricSource = self._client(wanted.prometheus.url)
        reading = await prometheus.read(targets, now_s=now_s)
        if wanted.source is MetricsSource.PROMETHEUS or not reading.problems:
            return reading, MetricsSource.PROMETHEUS, None
        direct = await self._direct.read(targets, now_s=now_s)
        return direct, MetricsSource.DIRECT, reading.problems[0]

    def _client(self, url: str) -> PrometheusSource:
        if url not in self._prometheus:
            self._prometheus[url] = PrometheusSource(url)
        return self._prometheus[url]
