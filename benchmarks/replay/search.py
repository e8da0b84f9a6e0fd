"""The five policies of the comparison; two of them search for their best settings.

A search is honest to its policy: it sees the whole trace, and the best result is reported with its
settings and every attempt. Fleets and floors are tried by size, each size in the splits
nearest to how the trace's own work divides between the roles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from benchmarks.replay.arena import Arena, Work, work
from benchmarks.replay.clairvoyant import schedule
from benchmarks.replay.setup import Profile
from benchmarks.replay.simulate import Job, Result

OBJECTIVE = 0.95
# Where no fleet of the range reaches the objective: this near to the best is as good.
AS_GOOD = 0.02
POLICIES = ("clairvoyant", "dynamo-default", "static-best", "dynamo-tuned", "tandem")
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
STATIC_SPLITS = 2
# The largest fleet that is tried: this times what the busiest minute keeps busy. Clumps within a
# minute may take several times the mean work of it.
MOST_OF_PEAK = 8.0

Fleet = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A policy's result; `tried` holds every point of a search, `chosen` names the best."""

    result: Result
    chosen: str | None
    tried: tuple[tuple[str, Result], ...] = ()


def evaluate(arena: Arena, policy: str, profile: Profile) -> Found:
    """Return the figures of one of `POLICIES` on this trace."""
    if policy == "dynamo-tuned":
        return _tuned(arena, profile)
    if policy == "static-best":
        return _static(arena, profile)
    return Found(arena.run_all([single(arena, policy, profile)])[0], None)


def single(arena: Arena, policy: str, profile: Profile) -> Job:
    """Return the one replay of a policy that searches nothing."""
    if policy == "dynamo-default":
        return arena.job("dynamo", planner=DYNAMO_DEFAULT)
    if policy == "clairvoyant":
        setup = arena.setup
        plan = schedule(arena.trace, profile, itl_s=setup.itl_s, startup_s=setup.startup_s)
        return arena.job(policy, schedule=plan)
    return arena.job(policy)


def _tuned(arena: Arena, profile: Profile) -> Found:
    """Run Dynamo with both loops over a grid of floors, from the mean work to the best fixed fleet.

    A larger floor holds more GPUs at every moment than the fixed fleet that reaches the objective
    alone; a smaller one is passed all the time.
    """
    prefill, decode = work(arena.trace, arena.setup, profile)
    fixed = _best_fleet(_static(arena, profile))
    least = ceil(prefill.mean) + ceil(decode.mean)
    floors = [
        fleet
        for size in range(min(least, sum(fixed)), sum(fixed) + 1)
        for fleet in splits_of(size, prefill, decode)[: arena.floor_splits]
    ]
    jobs = [
        arena.job(
            "dynamo",
            planner=DYNAMO_BOTH | {"prefill_min_endpoint": p, "decode_min_endpoint": d},
        )
        for p, d in floors
    ]
    results = arena.run_all(jobs)
    return best(
        [
            (f"both loops, kalman 30 s, floor {_name(floor)}", result)
            for floor, result in zip(floors, results, strict=True)
        ]
    )


def _static(arena: Arena, profile: Profile) -> Found:
    """Return the best fixed fleet of the smallest size that reaches the objective.

    More replicas of a role never hurt, so a larger size also reaches it.
    """
    prefill, decode = work(arena.trace, arena.setup, profile)
    tried: dict[Fleet, Result] = {}

    def attained(size: int, objective: float, *, all_splits: bool = False) -> float:
        fleets = [f for f in splits_of(size, prefill, decode)[:STATIC_SPLITS] if f not in tried]
        most = max((tried[f].attainment for f in tried if sum(f) == size), default=0.0)
        while fleets and (all_splits or most < objective):
            some = fleets[: max(1, arena.workers.jobs)]
            del fleets[: len(some)]
            results = arena.run_all([arena.job("static", fleet=list(fleet)) for fleet in some])
            tried.update(zip(some, results, strict=True))
            most = max(most, *(result.attainment for result in results))
        return most

    low = max(2, ceil(prefill.mean + decode.mean))
    most = max(low, sum(int(MOST_OF_PEAK * role.peak) + 1 for role in (prefill, decode)))
    # From what the busiest minute keeps busy upwards, in growing steps; then halving in between.
    size, step = min(most, max(low, ceil(prefill.peak + decode.peak))), 1
    while attained(size, OBJECTIVE) < OBJECTIVE and size < most:
        low, size, step = size + 1, min(most, size + step), 2 * step
    objective = OBJECTIVE
    highest = max(result.attainment for result in tried.values())
    if highest < OBJECTIVE:
        objective, low = highest - AS_GOOD, 2
    high = size
    while low < high:
        middle = (low + high) // 2
        if attained(middle, objective) >= objective:
            high = middle
        else:
            low = middle + 1
    attained(high, objective, all_splits=True)
    return best([(_name(fleet), result) for fleet, result in sorted(tried.items())])


def _best_fleet(found: Found) -> Fleet:
    prefill, _, decode = (found.chosen or "").removesuffix("D").partition("P")
    return int(prefill), int(decode)


def _name(fleet: Fleet) -> str:
    return f"{fleet[0]}P{fleet[1]}D"


def best(tried: Sequence[tuple[str, Result]]) -> Found:
    """Return the most efficient result that reaches the objective.

    If none does, take the most efficient near the highest attainment: efficiency alone would
    choose a fleet that starves users.
    """
    highest = max(result.attainment for _, result in tried)
    objective = OBJECTIVE if highest >= OBJECTIVE else highest - AS_GOOD
    reached = [point for point in tried if point[1].attainment >= objective]
    chosen, result = max(reached, key=lambda point: point[1].good_per_gpu_s)
    return Found(result, chosen, tuple(tried))


def splits_of(size: int, prefill: Work, decode: Work) -> list[Fleet]:
    """Return all fleets of `size` replicas, first those nearest to the division of the work."""
    wanted = size * prefill.mean / (prefill.mean + decode.mean)
    counts = sorted(range(1, size), key=lambda p: (abs(p - wanted), p))
    return [(p, size - p) for p in counts]
