"""A case: traffic, an objective, a start-up time; and the pool that is simulated on it."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.promise.traffic import Family, Traffic, requests_of
from tandem_operator.api import parse_pool
from tandem_operator.cli.input import case as simulated
from tandem_operator.cli.input.case import fitted_start, router_of, spec_of
from tandem_operator.cli.input.profiles import profile_of
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.traces.trace import Trace

MOST_REPLICAS = 40
LEARNING_S = 900.0
COLD_START_SIGMA = 0.1
MODEL_TOKENS = 131_072
PROFILE = "h200-llama-3.1-8b-fp8"


@dataclass(frozen=True, slots=True)
class Slo:
    """The bounds on latency."""

    ttft_s: float = 0.3
    per_thousand_s: float = 0.1
    tpot_s: float = 0.02


@dataclass(frozen=True, slots=True)
class Case:
    """The conditions of a run: everything that it depends on but the policy.

    Attributes:
        target: the attainment that is promised.
        replicas: how many the mean load keeps fully busy, by design.
        scored_s: from when on it is judged.
        event_s: the time of an event that no policy could know; `None` where the traffic recurs.
    """

    name: str
    traffic: Traffic
    target: float
    cold_start_s: float = 60.0
    replicas: float | None = None
    scored_s: float = LEARNING_S
    event_s: float | None = None
    slo: Slo = Slo()

    @property
    def family(self) -> Family:
        """Return the kind of the traffic."""
        return self.traffic.family

    @property
    def identity(self) -> str:
        """Return the text that tells its runs from those of another case, whatever its name."""
        told = (self.traffic, self.cold_start_s, self.scored_s, self.event_s, self.slo)
        return f"{told!r} {self.target:g}"


@lru_cache(maxsize=2)
def trace_of(traffic: Traffic, folder: Path | None) -> Trace:
    """Return the requests; several runs in turn share them."""
    return requests_of(traffic, folder)


@lru_cache(maxsize=1)
def profile() -> EngineProfile:
    """Return the engines of every case."""
    return profile_of(PROFILE)


def manifest(slo: Slo, target: float) -> dict[str, object]:
    """Return a pool that leaves everything but its SLO and its bounds at the product's defaults."""
    bounds = {"minReplicas": 1, "maxReplicas": MOST_REPLICAS, "gpusPerReplica": 1}
    repo = {"repo": "meta-llama/Llama-3.1-8B-Instruct"}
    return {
        "apiVersion": "tandem-inference.io/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": "promise"},
        "spec": {
            "model": {
                "name": "llama-3.1-8b",
                "maxModelLen": MODEL_TOKENS,
                "source": {"huggingFace": repo},
            },
            "engine": {"device": "NVIDIA", "maxNumSeqs": 256},
            "slo": {
                "ttft": {
                    "target": f"{1000.0 * slo.ttft_s:g}ms",
                    "perThousandPromptTokens": f"{1000.0 * slo.per_thousand_s:g}ms",
                },
                "tpot": {"target": f"{1000.0 * slo.tpot_s:g}ms"},
                "attainment": f"{100.0 * target:g}%",
            },
            "prefill": bounds,
            "decode": bounds,
        },
    }


def pool_of(case: Case, folder: Path | None) -> simulated.Case:
    """Return the pool, as `tandem simulate` would run it."""
    pool = parse_pool(manifest(case.slo, case.target), strict=True)
    spec, trace, engines = spec_of(pool), trace_of(case.traffic, folder), profile()
    return simulated.Case(
        name=pool.metadata.name,
        spec=spec,
        trace=trace,
        profile=engines,
        cold_start=ColdStart(case.cold_start_s, COLD_START_SIGMA),
        start=fitted_start(spec, trace, engines),
        router=router_of(pool.spec.router),
        prefix_caching=pool.spec.engine.prefix_caching,
        seed=case.traffic.seed,
        gpu_hour_price=None,
    )


def demand(trace: Trace, spec: PoolSpec) -> dict[Role, float]:
    """Return the replicas that the mean load keeps busy; every repeated block is cached."""
    engines, seen = profile(), set[int]()
    work_s = tokens = context = 0.0
    for request in trace.requests:
        known = 0
        for block in request.blocks:
            if block not in seen:
                break
            known += 1
        seen.update(request.blocks)
        cached = min(request.prompt_tokens - 1, known * trace.block_tokens)
        work_s += engines.service_s(request.prompt_tokens, cached)
        tokens += request.output_tokens
        context += request.prompt_tokens + request.output_tokens / 2
    span_s, mean_context = max(1.0, trace.span_s), context / max(1, len(trace.requests))
    batch = engines.largest_batch(spec.slo.tpot_s, mean_context)
    tokens_per_s = batch / engines.step_s(batch, batch * mean_context)
    return {Role.PREFILL: work_s / span_s, Role.DECODE: tokens / span_s / tokens_per_s}
