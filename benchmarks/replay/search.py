"""The five policies of the comparison; two of them search a grid for their best settings.

A search is honest to its policy: it sees the whole trace, tries every point around what the trace's
own work asks for, and the best result is reported with what was chosen.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.replay.setup import Profile, Setup
from benchmarks.replay.simulate import Job, Result, run
from benchmarks.replay.traces import Trace

OBJECTIVE = 0.95
POLICIES = ("tandem", "dynamo-default", "dynamo-tuned", "static-best", "clairvoyant")
# NVIDIA's SLA target as it comes: the throughput loop alone, every three minutes, auto-ARIMA.
DYNAMO_DEFAULT: dict[str, Any] = {"optimization_target": "sla"}
# Both loops, and the predictor and interval that did best in published and own trials.
DYNAMO_BOTH: dict[str, Any] = {
    "optimization_target": "sla",
    "enable_throughput_scaling": True,
    "enable_load_scaling": True,
    "load_predictor": "kalman",
    "throughput_adjustment_interval_seconds": 30,
    "load_adjustment_interval_seconds": 5,
}
MOST_STATIC_STEPS = 3

Fleet = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A policy's result; `tried` holds every point of a search, `chosen` names the best."""

    result: Result
    chosen: str | None
    tried: tuple[tuple[str, Result], ...] = ()


@dataclass(frozen=True, slots=True)
class Arena:
    """One trace and setup, and where results are kept."""

    trace: Trace
    trace_hash: str
    setup: Setup
    folder: Path
    jobs: int
    quick: bool = False

    def job(self, policy: str, **options: Any) -> Job:
        """What to replay here."""
        return Job(policy, self.trace.name, self.trace_hash, self.setup, options)

    def run(self, job: Job) -> Result:
        """The result of one job."""
        return run(job, self.trace, folder=self.folder)

    def run_all(self, jobs: Sequence[Job]) -> list[Result]:
        """The results of many, on as many processes as may be used."""
        if self.jobs <= 1 or len(jobs) <= 1:
            return [self.run(job) for job in jobs]
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
            return list(pool.map(self.run, jobs))


def evaluate(arena: Arena, policy: str, profile: Callable[[], Profile]) -> Found:
    """The figures of one of `POLICIES` on this trace."""
    if policy == "dynamo-default":
        return Found(arena.run(arena.job("dynamo", planner=DYNAMO_DEFAULT)), None)
    if policy == "dynamo-tuned":
        return _tuned(arena, profile())
    if policy == "static-best":
        return _static(arena, profile())
    return Found(arena.run(arena.job(policy)), None)


def _tuned(arena: Arena, profile: Profile) -> Found:
    """Dynamo with both loops over a grid of floors around the trace's mean and peak work."""
    prefill, decode = work(arena.trace, arena.setup, profile)
    floors = list(_grid(prefill, decode, quick=arena.quick))
    jobs = [
        arena.job(
            "dynamo",
            planner=DYNAMO_BOTH | {"prefill_min_endpoint": p, "decode_min_endpoint": d},
        )
        for p, d in floors
    ]
    tried = [
        (f"both loops, kalman 30 s, floor {p}P{d}D", result)
        for (p, d), result in zip(floors, arena.run_all(jobs), strict=True)
    ]
    return best(tried)


def _static(arena: Arena, profile: Profile) -> Found:
    """Fixed fleets from the smallest that could do, up to the cheapest that reaches the objective.

    More of a role never hurts, so the search climbs: the fleets of one size, then the next size.
    """
    prefill, decode = work(arena.trace, arena.setup, profile)
    tried: list[tuple[str, Result]] = []
    fleets = sorted(
        _grid(prefill, decode, quick=arena.quick), key=lambda fleet: (sum(fleet), fleet)
    )
    for size in sorted({sum(fleet) for fleet in fleets}):
        same = [fleet for fleet in fleets if sum(fleet) == size]
        jobs = [
            Job("static", arena.trace.name, arena.trace_hash, arena.setup, {"fleet": list(fleet)})
            for fleet in same
        ]
        results = arena.run_all(jobs)
        tried.extend((f"{p}P{d}D", r) for (p, d), r in zip(same, results, strict=True))
        if any(result.attainment >= OBJECTIVE for result in results):
            break
    return best(tried)


def best(tried: Sequence[tuple[str, Result]]) -> Found:
    """The most efficient that reaches the objective; if none does, the one with most good work.

    Efficiency alone would choose a fleet that starves users.
    """
    reached = [point for point in tried if point[1].attainment >= OBJECTIVE]
    if reached:
        chosen, result = max(reached, key=lambda point: point[1].good_per_gpu_s)
    else:
        chosen, result = max(tried, key=lambda point: point[1].attainment)
    return Found(result, chosen, tuple(tried))


@dataclass(frozen=True, slots=True)
class Work:
    """Replicas that a role's work keeps busy: in the mean, and in the busiest minute."""

    mean: float
    peak: float


def work(trace: Trace, setup: Setup, profile: Profile) -> tuple[Work, Work]:
    """Prefill's and decode's work."""
    minutes = int(trace.duration_s // 60) + 1
    busy, tokens = [0.0] * minutes, [0.0] * minutes
    for request in trace.requests:
        busy[int(request.at_s // 60)] += profile.service_s(request.prompt_tokens) / 60.0
        tokens[int(request.at_s // 60)] += request.output_tokens / 60.0
    count = len(trace.requests)
    context = sum(r.prompt_tokens + r.output_tokens / 2 for r in trace.requests) / count
    speed = profile.tokens_per_s(context_tokens=context, itl_s=setup.itl_s)
    span = trace.duration_s / 60.0
    return (
        Work(sum(busy) / span, max(busy)),
        Work(sum(tokens) / span / speed, max(tokens) / speed),
    )


def _grid(prefill: Work, decode: Work, *, quick: bool) -> Iterator[Fleet]:
    """Fleets from a role's mean work to above its busiest minute."""
    choices = []
    for demand in (prefill, decode):
        low = max(1, int(demand.mean))
        high = max(low + 1, int(1.6 * demand.peak) + 1)
        step = max(1, (high - low) // (MOST_STATIC_STEPS if quick else 2 * MOST_STATIC_STEPS))
        choices.append(range(low, high + 1, step))
    for p in choices[0]:
        for d in choices[1]:
            yield p, d
