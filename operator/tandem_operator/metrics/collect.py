"""The metrics of one pool at one tick, from the source in its spec.

`/arrivals` is always read directly: only the router has a history by seconds, and no scrape
interval may blur it. An engine's own measurement is also read directly, and only once.
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
from tandem_operator.metrics.silent_servers import AskedServer, SilentServers
from tandem_operator.metrics.source import Reading, Targets

MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Collected:
    """A tick's metrics, their source, and the missing parts.

    Attributes:
        ready: Ready engine pods by role.
        age_s: age of the oldest engine sample; `None` without any.
        passed_over: why Prometheus was not used although there is one; `None` if it was used.
        fault: why Prometheus gave no data at all; the same words while the cause stays.
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
    """The reader of all pools' metrics, with a separate budget for each pool.

    Args:
        pods: session for addresses of pods.
        servers: access to the Prometheus server of each pool.
    """

    def __init__(self, pods: aiohttp.ClientSession, *, servers: PrometheusAccess) -> None:
        self._direct = DirectSource(pods)
        self._departed = Departed()
        self._servers = servers
        self._silent = SilentServers()

    async def collect(self, targets: Targets, wanted: Metrics, *, now_s: float) -> Collected:
        """Return everything that routers and engines of one pool report now."""
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
        """Return the state of the pods, its source, and Prometheus's answer if asked."""
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
            late = "Prometheus: the API server does not show its token in time"
            return Reading.of_fault(str(error) or late)
        if server is None:
            return None
        pool, loop = (targets.namespace, targets.pool), asyncio.get_running_loop()
        asked = AskedServer(server.url, server.asker)
        if not self._silent.may_ask(asked, pool=pool, now_s=loop.time()):
            return no_answer()
        reading = await PrometheusSource(server).read(targets, now_s=now_s, budget=budget)
        answered = not reading.silent
        self._silent.note(asked, pool=pool, answered=answered, now_s=loop.time())
        return reading


def _few(problems: tuple[str, ...]) -> tuple[str, ...]:
    """Return as many problems as a log line holds."""
    if len(problems) <= MOST_PROBLEMS:
        return problems
    return (*problems[:MOST_PROBLEMS], f"and {len(problems) - MOST_PROBLEMS} more")
