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
from tandem_operator.metrics.prometheus import TIMEOUT_S, PrometheusSource, no_answer
from tandem_operator.metrics.prometheus_access import PrometheusAccess
from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.metrics.silent_servers import SilentServers
from tandem_operator.metrics.source import Reading, Targets

MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Collected:
    """A tick's metrics, which source gave them, and what is missing.

    Attributes:
        ready: Ready engine pods by role.
        age_s: of the oldest engine sample; `None` without any.
        passed_over: why Prometheus was not used although there is one; `None` if it was.
        fault: why Prometheus told nothing at all; the same words while the cause stays.
    """

    engines: tuple[EngineSample, ...]
    routers: tuple[RouterReport, ...]
    latency: Latency | None
    source: MetricsSource
    problems: tuple[str, ...]
    ready: Mapping[str, int]
    age_s: float | None
    passed_over: str | None = None
    fault: str | None = None


class Collector:
    """Reads metrics of all pools, each within a budget of its own.

    Args:
        pods: for addresses of pods.
        servers: knows the Prometheus server of each pool.
    """

    def __init__(self, pods: aiohttp.ClientSession, *, servers: PrometheusAccess) -> None:
        self._direct = DirectSource(pods)
        self._departed = Departed()
        self._servers = servers
        self._silent = SilentServers()

    async def collect(self, targets: Targets, wanted: Metrics, *, now_s: float) -> Collected:
        """Everything that routers and engines of one pool say now."""
        budget = budget_of(targets)
        (routers, missing), (reading, source, prometheus), start_ups = await asyncio.gather(
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
            passed_over=None
            if prometheus is None or prometheus is reading
            else prometheus.problems[0],
            fault=None if prometheus is None else prometheus.fault,
        )

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._direct.forget(namespace=namespace, pool=pool)
        self._departed.forget(namespace=namespace, pool=pool)
        self._silent.forget((namespace, pool))

    async def _read(
        self, targets: Targets, wanted: Metrics, *, now_s: float, budget: ScrapeBudget
    ) -> tuple[Reading, MetricsSource, Reading | None]:
        """What is known of the pods, by which source, and what Prometheus said if it was asked."""
        prometheus = await self._prometheus(targets, wanted, now_s=now_s, budget=budget)
        if prometheus is not None and (
            wanted.source is MetricsSource.PROMETHEUS or not prometheus.problems
        ):
            return prometheus, MetricsSource.PROMETHEUS, prometheus
        direct = await self._direct.read(targets, now_s=now_s, budget=budget)
        return direct, MetricsSource.DIRECT, prometheus

    async def _prometheus(
        self, targets: Targets, wanted: Metrics, *, now_s: float, budget: ScrapeBudget
    ) -> Reading | None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                server = await self._servers.of(wanted, namespace=targets.namespace, budget=budget)
        except (NoAnswerError, TimeoutError) as error:
            fault = str(error) or "Prometheus: the API server does not show its token in time"
            return Reading((), None, (fault,), fault=fault)
        if server is None:
            return None
        pool, loop = (targets.namespace, targets.pool), asyncio.get_running_loop()
        if not self._silent.may_ask(server.url, now_s=loop.time()):
            return no_answer()
        reading = await PrometheusSource(server).read(targets, now_s=now_s, budget=budget)
        answered = not reading.silent
        self._silent.note(server.url, pool=pool, answered=answered, now_s=loop.time())
        return reading


def _few(problems: tuple[str, ...]) -> tuple[str, ...]:
    """As many as a log line holds."""
    if len(problems) <= MOST_PROBLEMS:
        return problems
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more")
