"""The operator's own metrics: the instruments of the table in `series`, and their updates."""

import time
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from tandem_operator.metrics import series
from tandem_operator.metrics.series import SERIES, MetricSeries, SeriesKind
from tandem_operator.metrics.shown_pool import ShownPool, values_of


class _Held(NamedTuple):
    """The GPUs of a pool at the last look, and its time on the exporter's clock."""

    gpus: int
    at_s: float


_Child = tuple[MetricSeries, tuple[str, ...]]
"""A series with the values of its labels, in their order."""


class Exported:
    """All instruments of one process. Series of a pool vanish with the pool."""

    def __init__(
        self, registry: CollectorRegistry = REGISTRY, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self.depth: Callable[[], int] = lambda: 0
        self._held: dict[tuple[str, str], _Held] = {}
        self._shown: dict[tuple[str, str], frozenset[_Child]] = {}
        self._gauges = {
            each: Gauge(each.name, each.meaning, each.labels, registry=registry)
            for each in SERIES
            if each.kind is SeriesKind.GAUGE
        }
        self._counters = {
            each: Counter(each.name, each.meaning, each.labels, registry=registry)
            for each in SERIES
            if each.kind is SeriesKind.COUNTER
        }
        self.queue_depth, self.leader = (
            self._gauges[each] for each in (series.QUEUE_DEPTH, series.LEADER)
        )
        self.reconciles, self.conflicts, self.watch_restarts = (
            self._counters[each]
            for each in (series.RECONCILES, series.CONFLICTS, series.WATCH_RESTARTS)
        )
        self.reconcile_seconds = Histogram(
            series.RECONCILE_SECONDS.name, series.RECONCILE_SECONDS.meaning, registry=registry
        )
        version = metadata.version("tandem-inference")
        self._gauges[series.BUILD_INFO].labels(version=version).set(1)

    def refresh(self) -> None:
        """Read the values that only the loop's own thread may read; another one writes the page."""
        self.queue_depth.set(self.depth())

    def show(self, shown: ShownPool) -> None:
        """Show a pool after a pass. An unknown value has no series; it is not shown as zero."""
        where = {"namespace": shown.namespace, "pool": shown.pool}
        now = {(found.series, found.label_values(where)): found.value for found in values_of(shown)}
        self._keep_only(frozenset(now), key=(shown.namespace, shown.pool))
        for (made, values), value in now.items():
            self._gauges[made].labels(*values).set(value)
        if shown.decision is not None:
            for role, decided in shown.decision.roles.items():
                labels = {"role": role.value, "reason": decided.reason.value}
                self._counters[series.DECISIONS].labels(**where, **labels).inc()
        self._count_gpu_seconds(shown, where)

    def forget(self, *, namespace: str, pool: str) -> None:
        """Remove every series of a pool."""
        self._held.pop((namespace, pool), None)
        self._keep_only(frozenset(), key=(namespace, pool))
        for each, counter in self._counters.items():
            if each.of_pool:
                counter.remove_by_labels({"namespace": namespace, "pool": pool})

    def _keep_only(self, kept: frozenset[_Child], *, key: tuple[str, str]) -> None:
        # A search for a pool's gauges among those of all pools takes longer than a memory of them.
        for made, values in self._shown.pop(key, frozenset()) - kept:
            self._gauges[made].remove(*values)
        if kept:
            self._shown[key] = kept

    def _count_gpu_seconds(self, shown: ShownPool, where: dict[str, str]) -> None:
        key, now_s = (shown.namespace, shown.pool), self._clock()
        before = self._held.get(key)
        counter = self._counters[series.GPU_SECONDS].labels(**where)
        if before is not None:
            counter.inc(before.gpus * (now_s - before.at_s))
        # While a spec cannot be run, its pods run on unchanged.
        last = 0 if before is None else before.gpus
        gpus = last if shown.gpus_held is None else shown.gpus_held
        self._held[key] = _Held(gpus, now_s)
