"""Size prefill: replay the recent work through n servers and see who would be late.

A pod is one server of unit speed. Requests that miss their bound even on an idle server are left
out of sizing: no number of replicas helps them, and they are reported instead.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import exp, log

from tandem_operator.core.regression import Triple
from tandem_operator.core.spec import Slo
from tandem_operator.core.workload import Workload

BOUND_SHARE = 0.75
CHUNKS = 180
UNSEEN_ON_TIME = 10.0
RATE_GRID = 20.0
HOPELESS_LOAD = 1.15
SERVED_LOAD = 0.9


@dataclass(frozen=True, slots=True)
class Job:
    """A request, or a chunk of consecutive ones: work, and how long how many may wait."""

    at: float
    work_s: float
    allowances: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """The sample in server-seconds against the TTFT bounds.

    Attributes:
        singles: the latest requests, one by one: chance between neighbours is in them.
        chunks: all requests in short chunks, where they are too many to replay one by one: a burst
            that lasts is in them. Empty if `singles` holds them all.
        counted: requests that could be on time, of all; `singles_counted` of the latest.
        infeasible_share: requests that are late on an idle server.
        feasible_ttft_s: the smallest `ttft` target with which the wanted share is feasible.
    """

    singles: tuple[Job, ...]
    chunks: tuple[Job, ...]
    counted: int
    singles_counted: int
    mean_service_s: float
    allowed_late: float
    infeasible_share: float
    feasible_ttft_s: float
    unloaded_ttft_s: tuple[tuple[float, int], ...]

    @property
    def feasible(self) -> bool:
        """Whether enough requests could be on time on idle servers."""
        return self.infeasible_share <= self.allowed_late

    def load(self, rate_rps: float) -> float:
        """Servers kept busy by arrivals at `rate_rps`."""
        return rate_rps * self.mean_service_s


def prefill_work(
    sample: Workload, *, service: Triple, slowdown: float, overhead_s: float, slo: Slo
) -> PrefillWork:
    """The work of `sample`, with service times `slowdown` times what the model says.

    `overhead_s` is the part of TTFT that prefill replicas cannot change: transfer and first step.
    """
    a0, a1, a2 = service
    singles: list[Job] = []
    total_s, counted, singles_counted = 0.0, 0, 0
    unloaded: list[tuple[float, int]] = []
    excess: list[tuple[float, int]] = []
    for index, request in enumerate(sample.requests):
        fresh = request.prompt_tokens - request.cached_tokens
        context = request.cached_tokens + 0.5 * fresh
        service_s = slowdown * (a0 + a1 * fresh + a2 * fresh * context)
        ttft_s = service_s + overhead_s
        bound_s = slo.ttft_bound_s(request.prompt_tokens)
        allowances: tuple[tuple[float, int], ...] = ()
        if ttft_s <= bound_s:
            spare_s = max(BOUND_SHARE * bound_s - ttft_s, 0.5 * (bound_s - ttft_s))
            allowances = ((spare_s, request.count),)
            counted += request.count
            singles_counted += request.count if index >= sample.singles_from else 0
        total_s += service_s * request.count
        unloaded.append((ttft_s, request.count))
        excess.append((ttft_s - bound_s + slo.ttft_s, request.count))
        singles.append(Job(request.at, service_s * request.count, allowances))
    return PrefillWork(
        singles=tuple(singles[sample.singles_from :]),
        chunks=tuple(_chunks(singles)) if sample.singles_from > 0 else (),
        counted=counted,
        singles_counted=singles_counted,
        mean_service_s=total_s / sample.total,
        allowed_late=1.0 - slo.attainment,
        infeasible_share=1.0 - counted / sample.total,
        feasible_ttft_s=max(0.0, quantile(excess, slo.attainment)),
        unloaded_ttft_s=tuple(unloaded),
    )


def _chunks(jobs: Sequence[Job]) -> Iterator[Job]:
    size = -(-len(jobs) // CHUNKS)
    for start in range(0, len(jobs), size):
        part = jobs[start : start + size]
        allowances = sorted(spare for job in part for spare in job.allowances)
        yield Job(part[0].at, sum(job.work_s for job in part), tuple(allowances))


def quantile(weighted: Iterable[tuple[float, int]], share: float) -> float:
    """The value that `share` of the weight stays at or under."""
    ordered = sorted(weighted)
    left = share * sum(count for _, count in ordered)
    for value, count in ordered:
        left -= count
        if left < 0.0:
            return value
    return ordered[-1][0]


class Replay:
    """Late shares of one `PrefillWork`, each computed once. Rates are taken from a grid of 5 %."""

    # Above this load a queue grows without end: everybody who comes after a short while is late.
    hopeless_load = HOPELESS_LOAD

    def __init__(self, work: PrefillWork) -> None:
        self.work = work
        self._late: dict[tuple[int, int], float] = {}

    def late_share(self, rate_rps: float, replicas: int) -> float:
        """Share of the feasible requests that would be late at `rate_rps` on `replicas` servers."""
        if rate_rps <= 0.0:
            return 0.0
        load = self.work.load(rate_rps) / replicas
        if self.work.counted == 0:
            # Nobody can be on time: size to serve them at all.
            return 1.0 if load > SERVED_LOAD else 0.0
        if load > self.hopeless_load:
            return 1.0
        key = (round(log(rate_rps) * RATE_GRID), replicas)
        if key not in self._late:
            self._late[key] = self._replayed(exp(key[0] / RATE_GRID), replicas)
        return self._late[key]

    def _replayed(self, rate_rps: float, replicas: int) -> float:
        work = self.work
        late = _late_count(work.singles, _waits(work.singles, rate_rps, replicas))
        share = late / (work.singles_counted + UNSEEN_ON_TIME)
        if work.chunks:
            late = _late_count(work.chunks, _chunk_waits(work.chunks, rate_rps, replicas))
            share = max(share, late / (work.counted + UNSEEN_ON_TIME))
        return share

    def ttft_quantile_s(self, rate_rps: float, replicas: int, share: float) -> float:
        """TTFT that `share` of the latest requests would stay under."""
        work, rate_rps = self.work, max(rate_rps, 1e-6)
        unloaded = work.unloaded_ttft_s[len(work.unloaded_ttft_s) - len(work.singles) :]
        waits = _waits(work.singles, rate_rps, replicas)
        return quantile(
            (
                (alone_s + wait, count)
                for (alone_s, count), wait in zip(unloaded, waits, strict=True)
            ),
            share,
        )


def _late_count(jobs: Sequence[Job], waits: Sequence[float]) -> int:
    late = 0
    for job, wait in zip(jobs, waits, strict=True):
        allowances = job.allowances
        if not allowances or wait <= allowances[0][0]:
            continue
        late += sum(count for allowance_s, count in allowances if wait > allowance_s)
    return late


def _waits(jobs: Sequence[Job], rate_rps: float, replicas: int) -> list[float]:
    """Wait of each job in one first-come-first-served queue before `replicas` servers."""
    if replicas == 1:
        return _single_waits(jobs, rate_rps)
    free = [0.0] * replicas
    heapify(free)
    waits = []
    for job in jobs:
        now = job.at / rate_rps
        start = max(now, free[0])
        heapreplace(free, start + job.work_s)
        waits.append(start - now)
    return waits


def _single_waits(jobs: Sequence[Job], rate_rps: float) -> list[float]:
    free, waits = 0.0, []
    for job in jobs:
        now = job.at / rate_rps
        free = max(free, now)
        waits.append(free - now)
        free += job.work_s
    return waits


def _chunk_waits(chunks: Sequence[Job], rate_rps: float, replicas: int) -> list[float]:
    """Waits where a chunk's work comes evenly until the next one: the fleet drains it together.

    All at once it would be a burst that nobody sent.
    """
    backlog_s, waits = 0.0, []
    for chunk, following in itertools.pairwise(chunks):
        span_s = (following.at - chunk.at) / rate_rps
        left_s = max(0.0, backlog_s + chunk.work_s - span_s * replicas)
        waits.append(0.5 * (backlog_s + left_s) / replicas)
        backlog_s = left_s
    return [*waits, backlog_s / replicas]
