"""Size prefill: replay the recent work through n servers and see who would be late.

A pod is one server of unit speed. Requests that miss their bound even on an idle server are left
out of sizing: no number of replicas helps them, and they are reported instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import exp, log

from tandem_operator.core.regression import Triple
from tandem_operator.core.spec import Slo
from tandem_operator.core.workload import EXACT_REQUESTS, Workload

BOUND_SHARE = 0.85
FLUID_CHUNKS = 400
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
        infeasible_share: requests that are late on an idle server.
        feasible_ttft_s: the smallest `ttft` target with which the wanted share is feasible.
    """

    jobs: tuple[Job, ...]
    fluid: bool
    chunk: int
    counted: int
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
    size = len(sample.requests)
    fluid = size > EXACT_REQUESTS or sample.total > size
    chunk = max(1, -(-size // FLUID_CHUNKS)) if fluid else 1
    jobs: list[Job] = []
    total_s, counted = 0.0, 0
    unloaded: list[tuple[float, int]] = []
    excess: list[tuple[float, int]] = []
    for start in range(0, size, chunk):
        part = sample.requests[start : start + chunk]
        work_s = 0.0
        allowances: list[tuple[float, int]] = []
        for request in part:
            fresh = request.prompt_tokens - request.cached_tokens
            context = request.cached_tokens + 0.5 * fresh
            service_s = slowdown * (a0 + a1 * fresh + a2 * fresh * context)
            work_s += service_s * request.count
            ttft_s = service_s + overhead_s
            bound_s = slo.ttft_bound_s(request.prompt_tokens)
            unloaded.append((ttft_s, request.count))
            excess.append((ttft_s - bound_s + slo.ttft_s, request.count))
            if ttft_s <= bound_s:
                spare_s = max(BOUND_SHARE * bound_s - ttft_s, 0.5 * (bound_s - ttft_s))
                allowances.append((spare_s, request.count))
                counted += request.count
        total_s += work_s
        jobs.append(Job(at=part[0].at, work_s=work_s, allowances=tuple(sorted(allowances))))
    return PrefillWork(
        jobs=tuple(jobs),
        fluid=fluid,
        chunk=chunk,
        counted=counted,
        mean_service_s=total_s / sample.total,
        allowed_late=1.0 - slo.attainment,
        infeasible_share=1.0 - counted / sample.total,
        feasible_ttft_s=max(0.0, quantile(excess, slo.attainment)),
        unloaded_ttft_s=tuple(unloaded),
    )


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
        if load > HOPELESS_LOAD:
            # A queue that grows without end: everybody who comes after a short while is late.
            return 1.0
        key = (round(log(rate_rps) * RATE_GRID), replicas)
        if key not in self._late:
            waits = _waits(self.work, exp(key[0] / RATE_GRID), replicas)
            late = _late_count(self.work.jobs, waits)
            self._late[key] = late / (self.work.counted + UNSEEN_ON_TIME)
        return self._late[key]

    def ttft_quantile_s(self, rate_rps: float, replicas: int, share: float) -> float:
        """TTFT that `share` of all requests would stay under."""
        waits = _waits(self.work, max(rate_rps, 1e-6), replicas)
        ttfts = (
            (unloaded_s + waits[i // self.work.chunk], count)
            for i, (unloaded_s, count) in enumerate(self.work.unloaded_ttft_s)
        )
        return quantile(ttfts, share)


def _late_count(jobs: Sequence[Job], waits: Sequence[float]) -> int:
    late = 0
    for job, wait in zip(jobs, waits, strict=True):
        allowances = job.allowances
        if not allowances or wait <= allowances[0][0]:
            continue
        late += sum(count for allowance_s, count in allowances if wait > allowance_s)
    return late


def _waits(work: PrefillWork, rate_rps: float, replicas: int) -> list[float]:
    """Wait of each job in one first-come-first-served queue before `replicas` servers."""
    if work.fluid:
        return _fluid_waits(work.jobs, rate_rps, replicas)
    if replicas == 1:
        return _single_waits(work.jobs, rate_rps)
    free = [0.0] * replicas
    heapify(free)
    waits = []
    for job in work.jobs:
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


def _fluid_waits(jobs: Sequence[Job], rate_rps: float, replicas: int) -> list[float]:
    """Waits where a job is a chunk of requests: the fleet drains pooled work at its full speed."""
    backlog_s, before, waits = 0.0, 0.0, []
    for job in jobs:
        now = job.at / rate_rps
        left_s = backlog_s - (now - before) * replicas
        backlog_s = left_s if left_s > 0.0 else 0.0
        before = now
        waits.append((backlog_s + 0.5 * job.work_s) / replicas)
        backlog_s += job.work_s
    return waits
