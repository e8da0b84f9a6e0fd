"""One run and its figures."""

from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks.prefixes.cases import HOUR_S, WAYS, engines, setup_of, trace_of
from benchmarks.promise.cases import Slo
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo as Bounds
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.prefill_pod import PrefixCache
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.policy import Policy, Static, Tandem
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.trace import Trace

COLD_START = ColdStart(60.0, 0.1)
# From here on a policy may know its load, and caches are warm.
SCORED_S = 600.0
LONGER_TPOT = Slo(tpot_s=0.03)

Row = dict[str, Any]


def run(
    name: str, way: str, *, fleet: tuple[int, int] | None, times: float, folder: Path | None
) -> Row:
    """Simulate a trace on a fixed fleet, or with Tandem that begins with two of each role."""
    trace = trace_of(name, folder)
    prefill, decode = fleet or (2, 2)
    start = {Role.PREFILL: prefill, Role.DECODE: decode}
    policy: Policy = Tandem() if fleet is None else Static(start)
    setup = setup_of(trace, WAYS[way], start=start, times=times, slo=LONGER_TPOT)
    around = Scenario(pools=(setup,), cold_start=COLD_START, seed=1)
    simulation = Simulation(around, {setup.name: policy})
    simulation.run()
    pool = simulation.pool(setup.name)
    end_s = trace.span_s
    hours = {
        role: (pool.fleet(role).gpu_seconds(end_s) - pool.fleet(role).gpu_seconds(SCORED_S))
        / HOUR_S
        for role in Role
    }
    pods = (*pool.prefill.pods, *pool.prefill.gone)
    return {
        "trace": name,
        "way": way,
        "fleet": fleet,
        "times": times,
        **figures(pool.ended, trace, setup.spec.slo),
        "prefill_gpu_hours": hours[Role.PREFILL],
        "gpu_hours": sum(hours.values()),
        "busy_hours": sum(pod.engine.totals.busy_s for pod in pods) / HOUR_S,
        "kept_ratio": pool.router.view.learned.kept_ratio.value,
        "marks": sum(memory.marks for memory in pool.router.view.memories),
    }


def figures(ended: list[SimulatedFlight], trace: Trace, slo: Bounds) -> Mapping[str, float]:
    """Return the hits of the whole run, and the outcome of its requests after the beginning."""
    scored = [flight for flight in ended if flight.request.at_s >= SCORED_S]
    entered = sum(request.at_s >= SCORED_S for request in trace.requests)
    firsts = sorted(flight.ttft_s for flight in scored if flight.ttft_s is not None)
    prompt = sum(request.prompt_tokens for request in trace.requests)
    return {
        "requests": len(trace.requests),
        "hit_rate": sum(flight.cached_tokens for flight in ended) / prompt,
        "ttft_p50_s": _quantile(firsts, 0.5),
        "ttft_p95_s": _quantile(firsts, 0.95),
        "attainment": sum(judge(flight, slo).good for flight in scored) / entered,
    }


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def in_one_cache(name: str, *, pods: int, times: float, folder: Path | None) -> float:
    """Return the hit rate of one cache as large as those of so many pods together.

    It has each prompt at once. No placement is as good: it copies blocks among pods.
    """
    trace = trace_of(name, folder)
    blocks = pods * engines(times).kv_capacity_tokens // trace.block_tokens
    cache, hits = PrefixCache(blocks=blocks), 0
    for request in trace.requests:
        held = cache.hits(request.blocks) * trace.block_tokens
        hits += min(held, request.prompt_tokens - 1)
        cache.keep(request.blocks)
    return hits / sum(request.prompt_tokens for request in trace.requests)
