"""Size prefill: replay the recent work through n servers and count late requests.

A pod is one server of unit speed. Requests that miss their bound even on an idle server are left
out of sizing. No number of replicas helps them, so they are reported instead.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from math import exp, inf, log
from typing import NamedTuple

from tandem_operator.core.learn.least_squares import Triple
from tandem_operator.core.sizing.arrival_sample import Workload
from tandem_operator.core.slo import Slo
from tandem_operator.core.tuning.tuning import TUNING, Tuning


class Job(NamedTuple):
    """One request: its time, its work, and how long it can wait.

    A request that is late on an idle server can wait for ever: no replica helps it.
    """

    at: float
    work_s: float
    spare_s: float


class ReplayChunk(NamedTuple):
    """Consecutive requests: their time, their work, and how many are late after which wait.

    `late[i]` of them are late if the wait exceeds `spares_s[i - 1]`, the shorter spares first.
    """

    at: float
    work_s: float
    spares_s: tuple[float, ...]
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """The sample in server-seconds against the TTFT bounds.

    Attributes:
        singles: the latest requests, one by one, with the chance between neighbours.
        chunks: all requests in short chunks, if they are too many to replay one by one, with long
            bursts. Empty if `singles` holds them all.
        counted: requests that could be on time, of all; `singles_counted` of the latest.
        infeasible_share: share of requests that are late on an idle server.
        service_cv2: squared coefficient of variation of a request's work.
        patience_s: how long half of the requests that could be on time can wait.
        unloaded: TTFT on an idle server, the `ttft` target that keeps it, and of how many requests.
    """

    singles: tuple[Job, ...]
    chunks: tuple[ReplayChunk, ...]
    counted: int
    singles_counted: int
    mean_service_s: float
    allowed_late: float
    infeasible_share: float
    unloaded: tuple[tuple[float, float, int], ...]
    service_cv2: float = 0.0
    patience_s: float = 0.0

    @property
    def feasible(self) -> bool:
        """Return whether enough requests could be on time on idle servers."""
        return self.infeasible_share <= self.allowed_late

    @property
    def feasible_ttft_s(self) -> float:
        """Return the smallest `ttft` target with which the wanted share is feasible."""
        targets = ((target_s, count) for _, target_s, count in self.unloaded)
        return max(0.0, quantile(targets, 1.0 - self.allowed_late))

    def unloaded_ttft_s(self, share: float) -> float:
        """Return the TTFT that `share` of the requests would stay under on idle servers."""
        return quantile(((ttft_s, count) for ttft_s, _, count in self.unloaded), share)

    def load(self, rate_rps: float) -> float:
        """Return the servers that arrivals at `rate_rps` keep busy."""
        return rate_rps * self.mean_service_s


# Time, work, longest wait, and number of requests.
_Entry = tuple[float, float, float, int]


def prefill_work(
    sample: Workload,
    *,
    service: Triple,
    slowdown: float,
    overhead_s: float,
    slo: Slo,
    tuning: Tuning = TUNING,
) -> PrefillWork:
    """Return the work of `sample`, with service times `slowdown` times the modelled ones.

    `overhead_s` is the part of TTFT that prefill replicas cannot change: transfer and first step.
    """
    a0, a1, a2 = service
    ttft_share = tuning.sizing.ttft_share
    entries: list[_Entry] = []
    unloaded: list[tuple[float, float, int]] = []
    total_s = squares_s2 = 0.0
    for at, count, prompt_tokens, cached_tokens in sample.requests:
        fresh = prompt_tokens - cached_tokens
        context = cached_tokens + 0.5 * fresh
        service_s = slowdown * (a0 + a1 * fresh + a2 * fresh * context)
        ttft_s = service_s + overhead_s
        bound_s = slo.ttft_bound_s(prompt_tokens)
        spare_s = inf
        if ttft_s <= bound_s:
            spare_s = max(ttft_share * bound_s - ttft_s, 0.5 * (bound_s - ttft_s))
        work_s = service_s * count
        total_s += work_s
        squares_s2 += service_s * work_s
        unloaded.append((ttft_s, ttft_s - bound_s + slo.ttft_s, count))
        entries.append((at, work_s, spare_s, count))
    singles = entries[sample.singles_from :]
    counted = _counted(entries)
    return PrefillWork(
        singles=tuple(Job(at, work_s, spare_s) for at, work_s, spare_s, _ in singles),
        chunks=tuple(_chunks(entries, tuning=tuning)) if sample.singles_from > 0 else (),
        counted=counted,
        singles_counted=_counted(singles),
        mean_service_s=total_s / sample.total,
        allowed_late=1.0 - slo.attainment,
        infeasible_share=1.0 - counted / sample.total,
        unloaded=tuple(unloaded),
        service_cv2=max(0.0, squares_s2 * sample.total / max(total_s * total_s, 1e-12) - 1.0),
        patience_s=_patience_s(entries),
    )


def _patience_s(entries: Sequence[_Entry]) -> float:
    spares = [(spare_s, count) for _, _, spare_s, count in entries if spare_s < inf]
    return quantile(spares, 0.5) if spares else 0.0


def _counted(entries: Sequence[_Entry]) -> int:
    return sum([count for _, _, spare_s, count in entries if spare_s < inf])


def _chunks(entries: Sequence[_Entry], *, tuning: Tuning = TUNING) -> Iterator[ReplayChunk]:
    size = -(-len(entries) // tuning.sizing.replay_chunks)
    for start in range(0, len(entries), size):
        part = entries[start : start + size]
        yield chunk_of(
            at=part[0][0],
            work_s=sum([work_s for _, work_s, _, _ in part]),
            spares=[(spare_s, count) for _, _, spare_s, count in part if spare_s < inf],
        )


def chunk_of(*, at: float, work_s: float, spares: Iterable[tuple[float, int]]) -> ReplayChunk:
    """Return the chunk of requests with these `spares`, the waits that they can bear."""
    ordered = sorted(spares)
    late = (0, *itertools.accumulate([count for _, count in ordered]))
    return ReplayChunk(at, work_s, tuple([spare_s for spare_s, _ in ordered]), late)


def quantile(weighted: Iterable[tuple[float, int]], share: float) -> float:
    """Return the value that `share` of the weight stays at or under."""
    ordered = sorted(weighted)
    left = share * sum(count for _, count in ordered)
    for value, count in ordered:
        left -= count
        if left < 0.0:
            return value
    return ordered[-1][0]


class Replay:
    """Late shares of one `PrefillWork`, each computed once. Rates are taken from a grid of 5 %.

    `tuning.sizing.next_job` chooses the server of the next job.
    """

    tuning: Tuning

    def __init__(self, work: PrefillWork, *, tuning: Tuning = TUNING) -> None:
        self.work = work
        self.tuning = tuning
        # Above this load a queue grows without end: all requests after a short while are late.
        self._hopeless_load = tuning.sizing.hopeless_load_ratio
        self._late: dict[tuple[int, int], float] = {}
        # By replicas, the highest rate on the grid without a late request: no wait grows if
        # requests come further apart.
        self._on_time: dict[int, int] = {}

    def late_share(self, rate_rps: float, replicas: int) -> float:
        """Return the share of feasible requests late at `rate_rps` on `replicas` servers."""
        if rate_rps <= 0.0:
            return 0.0
        load = self.work.load(rate_rps) / replicas
        if self.work.counted == 0:
            # No request can be on time: size to serve all of them at any time.
            return 1.0 if load > self.tuning.sizing.served_load_ratio else 0.0
        if load > self._hopeless_load:
            return 1.0
        rates_per_e = self.tuning.sizing.replay_rates_per_e
        step = round(log(rate_rps) * rates_per_e)
        if step <= self._on_time.get(replicas, -inf):
            return 0.0
        late = self._late.get((step, replicas))
        if late is None:
            late = self._late[step, replicas] = self._replayed(exp(step / rates_per_e), replicas)
            if late == 0.0:
                self._on_time[replicas] = step
        return late

    def _replayed(self, rate_rps: float, replicas: int) -> float:
        work, unseen = self.work, self.tuning.sizing.unseen_on_time_requests
        late = _late_jobs(work.singles, rate_rps, replicas, tuning=self.tuning)
        share = late / (work.singles_counted + unseen)
        if work.chunks:
            late = _late_in_chunks(work.chunks, rate_rps, replicas)
            share = max(share, late / (work.counted + unseen))
        return share

    def ttft_quantile_s(self, rate_rps: float, replicas: int, share: float) -> float:
        """Return the TTFT that `share` of the latest requests would stay under."""
        work, rate_rps = self.work, max(rate_rps, 1e-6)
        unloaded = work.unloaded[len(work.unloaded) - len(work.singles) :]
        waits = _waits(work.singles, rate_rps, replicas, tuning=self.tuning)
        return quantile(
            (
                (alone_s + wait, count)
                for (alone_s, _, count), wait in zip(unloaded, waits, strict=True)
            ),
            share,
        )


def in_one_queue(replay: Replay) -> Replay:
    """Return the same if the first free server takes the next job."""
    tuning = replay.tuning
    if tuning.sizing.next_job is heapreplace:
        return replay
    sizing = replace(tuning.sizing, next_job=heapreplace)
    return Replay(replay.work, tuning=replace(tuning, sizing=sizing))


def _late_jobs(
    jobs: Sequence[Job], rate_rps: float, replicas: int, *, tuning: Tuning = TUNING
) -> int:
    """Return how many jobs wait too long before `replicas` servers, first come first served."""
    late, free = 0, [0.0] * replicas
    keep_busy = tuning.sizing.next_job
    for at, work_s, spare_s in jobs:
        now = at / rate_rps
        start = free[0]
        if start > now:
            if start - now > spare_s:
                late += 1
            keep_busy(free, start + work_s)
        else:
            keep_busy(free, now + work_s)
    return late


def _waits(
    jobs: Sequence[Job], rate_rps: float, replicas: int, *, tuning: Tuning = TUNING
) -> Iterator[float]:
    """Return the wait of each job there."""
    free = [0.0] * replicas
    keep_busy = tuning.sizing.next_job
    for at, work_s, _ in jobs:
        now = at / rate_rps
        start = max(now, free[0])
        keep_busy(free, start + work_s)
        yield start - now


def _late_in_chunks(chunks: Sequence[ReplayChunk], rate_rps: float, replicas: int) -> int:
    """Return how many wait too long if a chunk's work comes evenly until the next one.

    The fleet serves it together. Work that came all at once would be a burst that no client sent.
    """
    backlog_s, late = 0.0, 0
    for (at, work_s, spares_s, late_after), following in itertools.pairwise(chunks):
        left_s = backlog_s + work_s - (following.at - at) / rate_rps * replicas
        left_s = max(left_s, 0.0)
        if backlog_s > 0.0 or left_s > 0.0:
            wait_s = 0.5 * (backlog_s + left_s) / replicas
            late += late_after[bisect_left(spares_s, wait_s)]
        backlog_s = left_s
    last = chunks[-1]
    return late + last.late[bisect_left(last.spares_s, backlog_s / replicas)]
