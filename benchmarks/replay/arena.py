"""The arena of policies: one trace on one simulated cluster, and the work that the trace brings."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.replay import environment
from benchmarks.replay.setup import USUAL_BUDGET, Profile, Setup, context_of, fitted_start
from benchmarks.replay.simulate import Job, Result, prepared
from benchmarks.replay.workers import Workers
from tandem_operator.sim.traces.trace import Trace

BUDGET_PER_PEAK = 2.0


@dataclass(frozen=True, slots=True)
class Work:
    """Replicas that a role's work keeps busy: in the mean, and in the busiest minute."""

    mean: float
    peak: float


def work(trace: Trace, setup: Setup, profile: Profile) -> tuple[Work, Work]:
    """Return the work of prefill and that of decode."""
    minutes = int(trace.span_s // 60) + 1
    busy, tokens = [0.0] * minutes, [0.0] * minutes
    for request in trace.requests:
        busy[int(request.at_s // 60)] += profile.service_s(request.prompt_tokens) / 60.0
        tokens[int(request.at_s // 60)] += request.output_tokens / 60.0
    count = len(trace.requests)
    context = sum(r.prompt_tokens + r.output_tokens / 2 for r in trace.requests) / count
    speed = profile.tokens_per_s(context_tokens=context, itl_s=setup.itl_s)
    span = trace.span_s / 60.0
    return (
        Work(sum(busy) / span, max(busy)),
        Work(sum(tokens) / span / speed, max(tokens) / speed),
    )


@dataclass(frozen=True, slots=True)
class Arena:
    """One trace and setup, and the folder of results.

    Attributes:
        floor_splits: the splits between the roles that a search tries for each size of floor.
    """

    trace: Trace
    trace_hash: str
    setup: Setup
    folder: Path
    workers: Workers
    floor_splits: int = 1

    def job(self, policy: str, **options: Any) -> Job:
        """Return the job of a policy here."""
        return Job(policy, self.trace.name, self.trace_hash, self.setup, options)

    def run_all(self, jobs: Sequence[Job]) -> list[Result]:
        """Return the results of many jobs."""
        return self.workers.run_all(jobs, self.trace, self.folder)


def arena_of(
    trace: Trace,
    profile: Profile,
    workers: Workers,
    *,
    timing: str,
    ttft_s: float,
    itl_s: float,
    startup_s: float,
    start: tuple[int, int] | None = None,
    gpu_budget: int | None = None,
    floor_splits: int = 1,
) -> Arena:
    """Return an arena whose first fleet and budget, where not given, are fitted to the trace."""
    setup = Setup(
        timing=timing,
        ttft_s=ttft_s,
        itl_s=itl_s,
        startup_s=startup_s,
        start=start or fitted_start(trace, profile, itl_s),
        gpu_budget=gpu_budget or USUAL_BUDGET,
        max_model_len=context_of(trace),
    )
    if gpu_budget is None:
        peak = sum(role.peak for role in work(trace, setup, profile))
        setup = setup.with_budget(max(USUAL_BUDGET, ceil(BUDGET_PER_PEAK * peak)))
    folder = environment.cache_directory() / "replay"
    _, digest = prepared(trace, folder / "traces")
    return Arena(trace, digest, setup, folder, workers, floor_splits=floor_splits)
