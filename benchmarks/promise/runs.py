"""One run of a case under a policy, scored once a policy may know its load."""

import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from benchmarks.promise.cases import Case
from tandem_operator.cli.input import case as simulated
from tandem_operator.core.role import Role
from tandem_operator.sim.flight import judge
from tandem_operator.sim.policy import Policy, Static
from tandem_operator.sim.pool import Pool, PoolSetup
from tandem_operator.sim.report import Moment
from tandem_operator.sim.simulate import Scenario, Simulation

HOUR_S = 3600.0


def run(case: Case, pool: simulated.Case, policy: Policy) -> dict[str, Any]:
    """Return the figures of one run: the scored part, and under `first` the part before it."""
    began_s = time.process_time()
    start = pool.start
    if isinstance(policy, Static):
        start = policy.replicas
    setup = PoolSetup(
        name=pool.name,
        spec=pool.spec,
        trace=pool.trace,
        profile=pool.profile,
        start=start,
        router=pool.router,
        prefix_caching=pool.prefix_caching,
    )
    around = Scenario(pools=(setup,), cold_start=pool.cold_start, seed=pool.seed)
    simulation = Simulation(around, {pool.name: policy})
    report = simulation.run()[pool.name]
    ran = simulation.pool(pool.name)
    # What comes after the last arrival is the end of the trace, and no traffic of the case.
    end_s = max(case.traffic.span_s, pool.trace.span_s)
    first = _part(ran, report.moments, 0.0, case.scored_s)
    return {
        "case": case.name,
        "policy": policy.name,
        "whole": _part(ran, report.moments, 0.0, end_s),
        "first": first,
        **_part(ran, report.moments, case.scored_s, end_s),
        "overflowed": report.overflowed,
        "cpu_s": round(time.process_time() - began_s, 1),
    }


def _part(pool: Pool, moments: tuple[Moment, ...], begin_s: float, end_s: float) -> dict[str, Any]:
    """Return the part of a run between two moments: requests by arrival, GPUs by the clock."""
    slo = pool.spec.slo
    flights = [f for f in pool.ended if begin_s <= f.request.at_s < end_s]
    # A request still inside when the run was cut off is in no list, and late.
    entered = sum(begin_s <= r.at_s < end_s for r in pool.setup.trace.requests)
    good = sum(judge(flight, slo).good for flight in flights)
    held_s = sum(
        pool.fleet(role).gpu_seconds(end_s) - pool.fleet(role).gpu_seconds(begin_s) for role in Role
    )
    return {
        "requests": entered,
        "late": entered - good,
        "attainment": good / entered if entered else 1.0,
        "gpu_hours": held_s / HOUR_S,
        "good_per_gpu_s": good / held_s if held_s > 0.0 else 0.0,
        "changes_per_hour": _changes(moments, begin_s, end_s) * HOUR_S / (end_s - begin_s),
    }


def _changes(moments: Iterable[Moment], begin_s: float, end_s: float) -> int:
    """Return how often a desired count changed."""
    return sum(
        after.asked[role] != before.asked[role]
        for before, after in pairwise(moments)
        for role in Role
        if begin_s <= after.at_s < end_s
    )
