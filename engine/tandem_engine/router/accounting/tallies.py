"""Series that are counted on one thread, some twenty steps for each request.

The client library takes a lock for each step, and looks through the buckets of a histogram one by
one. These series add up by themselves, and give the library their sums when it reads them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from prometheus_client import Counter, Histogram
from prometheus_client.samples import Sample


class Total(Counter):
    """A counter; it has no exemplars."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._more = 0.0

    def inc(self, amount: float = 1, exemplar: Mapping[str, str] | None = None) -> None:
        """Add to it."""
        del exemplar
        self._more += amount

    def _child_samples(self) -> Iterable[Sample]:
        more, self._more = self._more, 0.0
        super().inc(more)
        return super()._child_samples()


class Times(Histogram):
    """A histogram; it has no exemplars."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._more = [0] * len(self._upper_bounds)
        self._more_s = 0.0

    def observe(self, amount: float, exemplar: Mapping[str, str] | None = None) -> None:
        """Count one time."""
        del exemplar
        self._more[bisect_left(self._upper_bounds, amount)] += 1
        self._more_s += amount

    def _child_samples(self) -> Iterable[Sample]:
        for place, more in enumerate(self._more):
            if more:
                self._buckets[place].inc(more)
                self._more[place] = 0
        self._sum.inc(self._more_s)
        self._more_s = 0.0
        return super()._child_samples()
