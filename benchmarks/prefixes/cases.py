"""The compared traffic, fleets and routers."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from benchmarks.promise.cases import Slo, manifest, profile
from benchmarks.replay.traces import opened
from tandem_operator.api import parse_pool
from tandem_operator.cli.input.case import router_of, spec_of
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.engines.prefill_pod import PrefixCache
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.routing.router_queue import Spread
from tandem_operator.sim.traces.generate import Agents, Lengths, Mix, agents, constant, poisson
from tandem_operator.sim.traces.readers import TraceFormat
from tandem_operator.sim.traces.trace import Trace, TraceRequest, scaled, spread

FILE = "mooncake_conversation_trace.jsonl"
# The clock of the trace ticks every three seconds.
TICK_S = 3.0
HOUR_S = 3600.0
ENDLESS_BLOCKS = 10**9
TARGET = 0.99
# Half a second until routers tell each other, and the way.
TOLD_AFTER_S = 0.6


@dataclass(frozen=True, slots=True)
class Way:
    """A way of placing prompts.

    Attributes:
        endless: whether all prefill pods share one cache that never loses anything.
    """

    what: str
    spread: Spread
    memories: int = 1
    told_after_s: float | None = None
    endless: bool = False


WAYS = {
    "least-loaded": Way("least loaded pod (before)", Spread.LEAST_LOADED),
    "random": Way("random pod", Spread.RANDOM),
    "hashed": Way("rendezvous hashing of the first 1,024 tokens", Spread.HASHED),
    "prefix": Way("by what was sent (live)", Spread.PREFIX),
    "told-2": Way("the same, two routers that tell each other", Spread.PREFIX, 2, TOLD_AFTER_S),
    "silent-2": Way("the same, two routers that do not", Spread.PREFIX, 2),
    "caches": Way("by what caches really hold", Spread.CACHES),
    "endless": Way("one endless cache", Spread.CACHES, endless=True),
}


@lru_cache(maxsize=4)
def trace_of(name: str, folder: Path | None) -> Trace:
    """Return one of the traces by its name."""
    if name == "agents":
        lengths = Mix(Lengths(3000, 0.6), Lengths(200, 0.6))
        return agents(name, Agents(120), span_s=HOUR_S, mix=lengths, seed=5)
    if name == "alone":
        lengths = Mix(Lengths(2500, 0.6), Lengths(250, 0.6))
        rate = constant(30.0)
        made = poisson(name, rate, most_rps=30.0, span_s=1200.0, mix=lengths, seed=6)
        return replace(made, requests=tuple(_alone(made)))
    if folder is None:
        raise ValueError(f"{name} needs --traces, the folder that holds {FILE}")
    read = spread(opened(folder / FILE, TraceFormat.MOONCAKE), TICK_S, seed=1)
    return scaled(read, 4.0) if name == "conversations-4" else read


def _alone(trace: Trace) -> list[TraceRequest]:
    """Return its requests with blocks of their own: no two prompts share one."""
    found: list[TraceRequest] = []
    used = 0
    for request in trace.requests:
        count = request.prompt_tokens // trace.block_tokens
        found.append(replace(request, blocks=tuple(range(used, used + count))))
        used += count
    return found


def engines(times: float) -> EngineProfile:
    """Return the engines of the promise benchmark, with caches so many times as large."""
    usual = profile()
    return replace(usual, kv_capacity_tokens=round(times * usual.kv_capacity_tokens))


def setup_of(
    trace: Trace, way: Way, *, start: dict[Role, int], times: float, slo: Slo
) -> PoolSetup:
    """Return a pool on the product's defaults."""
    pool = parse_pool(manifest(slo, TARGET), strict=True)
    spec: PoolSpec = spec_of(pool)
    router = replace(
        router_of(pool.spec.router),
        spread=way.spread,
        memories=way.memories,
        told_after_s=way.told_after_s,
    )
    return PoolSetup(
        name=pool.metadata.name,
        spec=spec,
        trace=trace,
        profile=engines(times),
        start=start,
        router=router,
        one_cache=PrefixCache(blocks=ENDLESS_BLOCKS) if way.endless else None,
    )
