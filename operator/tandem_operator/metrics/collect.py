"""One pool's metrics at one tick, from the source its spec asks for.

`/arrivals` is always asked directly: only the router has one-second history, and no scrape interval
may blur it.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

from tandem_operator.core.observation import EngineSample, Latency, RouterReport
from tandem_operator.metrics.direct import DirectSource
from tandem_operator.metrics.prometheus import PrometheusSource
from tandem_operator.metrics.source import MetricSource, Reading, Targets

log = logging.getLogger(__name__)


class SourceChoice(StrEnum):
    """`spec.metrics.source`."""

    AUTO = "Auto"
    PROMETHEUS = "Prometheus"
    DIRECT = "Direct"


@dataclass(frozen=True, slots=True)
class MetricSettings:
    """What a pool's spec says about metrics."""

    source: SourceChoice = SourceChoice.AUTO
    prometheus_url: str | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """A tick's metrics, which source gave them, and what is missing."""

    engines: tuple[EngineSample, ...]
    routers: tuple[RouterReport, ...]
    latency: Latency | None
    source: SourceChoice
    problems: tuple[str, ...]
    age_s: float | None


class Collector:
    """Reads metrics of all pools; keeps one Prometheus client per server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._direct = DirectSource(session)
        self._prometheus: dict[str, PrometheusSource] = {}

    async def collect(
        self, targets: Targets, settings: MetricSettings, *, now_s: float
    ) -> Collected:
        """Everything that routers and engines of one pool say now."""
        (routers, missing), (reading, source) = await asyncio.gather(
            self._direct.reports(targets, now_s=now_s),
            self._read(targets, settings, now_s=now_s),
        )
        return Collected(
            engines=reading.engines,
            routers=routers,
            latency=reading.latency,
            source=source,
            problems=(*missing, *reading.problems),
            age_s=reading.oldest_s(now_s=now_s),
        )

    def close(self) -> None:
        """Close all Prometheus clients."""
        for source in self._prometheus.values():
            source.close()

    async def _read(
        self, targets: Targets, settings: MetricSettings, *, now_s: float
    ) -> tuple[Reading, SourceChoice]:
        if settings.source is SourceChoice.DIRECT or settings.prometheus_url is None:
            return await self._direct.read(targets, now_s=now_s), SourceChoice.DIRECT
        prometheus: MetricSource = self._client(settings.prometheus_url)
        reading = await prometheus.read(targets, now_s=now_s)
        if settings.source is SourceChoice.PROMETHEUS or not reading.problems:
            return reading, SourceChoice.PROMETHEUS
        log.debug("prometheus incomplete, asking pods", extra={"problem": reading.problems[0]})
        return await self._direct.read(targets, now_s=now_s), SourceChoice.DIRECT

    def _client(self, url: str) -> PrometheusSource:
        if url not in self._prometheus:
            self._prometheus[url] = PrometheusSource(url)
        return self._prometheus[url]


def settings_of(spec: Mapping[str, object]) -> MetricSettings:
    """The metric settings of a pool's spec; what cannot be read counts as not said."""
    metrics = spec.get("metrics")
    if not isinstance(metrics, Mapping):
        return MetricSettings()
    named = metrics.get("source")
    source = next((each for each in SourceChoice if each.value == named), SourceChoice.AUTO)
    prometheus = metrics.get("prometheus")
    url = prometheus.get("url") if isinstance(prometheus, Mapping) else None
    return MetricSettings(
        source=source,
        prometheus_url=url if isinstance(url, str) and url else None,
    )
