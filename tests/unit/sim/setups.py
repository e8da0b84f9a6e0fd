"""Builders for the simulator's tests: a small quick engine, a pool, synthetic traces."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.faults import Fault
from tandem_operator.sim.engines.profile import EngineProfile, straight_profile
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.routing.router_queue import QueueSettings
from tandem_operator.sim.traces.generate import Lengths, Mix, constant, poisson
from tandem_operator.sim.traces.trace import Trace, TraceRequest

ENGINE = straight_profile(
    "small",
    prefill=(0.005, 2e-5),
    step=(0.004, 2e-5, 3e-8),
    kv_capacity_tokens=100_000,
    max_num_seqs=64,
)
CHAT = Mix(Lengths(1500, 0.5, 16, 8000), Lengths(120, 0.5, 2, 600))


def make_spec(
    *, ttft_s: float = 0.5, tpot_s: float = 0.02, most: int = 8, gpu_budget: int | None = None
) -> PoolSpec:
    return PoolSpec(
        slo=Slo(ttft_s, 0.0, tpot_s, 0.95),
        roles={role: RoleSpec(1, most, 1, True) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=gpu_budget,
        stabilization_s=60.0,
        max_step=None,
        max_model_len=32_768,
        max_num_seqs=64,
        insurance=Insurance(decode_gate=True, overflow=True),
    )


def make_setup(
    trace: Trace,
    *,
    prefill: int = 2,
    decode: int = 2,
    name: str = "pool",
    spec: PoolSpec | None = None,
    profile: EngineProfile = ENGINE,
    router: QueueSettings | None = None,
    faults: tuple[Fault, ...] = (),
    metric_delay_s: float = 0.0,
) -> PoolSetup:
    return PoolSetup(
        name=name,
        spec=make_spec() if spec is None else spec,
        trace=trace,
        profile=profile,
        start=counts(prefill, decode),
        router=QueueSettings() if router is None else router,
        faults=faults,
        metric_delay_s=metric_delay_s,
    )


def counts(prefill: int, decode: int) -> Mapping[Role, int]:
    return {Role.PREFILL: prefill, Role.DECODE: decode}


def steady(rate_rps: float, span_s: float, *, mix: Mix = CHAT, seed: int = 1) -> Trace:
    return poisson(
        "steady", constant(rate_rps), most_rps=rate_rps, span_s=span_s, mix=mix, seed=seed
    )


def of(*requests: tuple[float, int, int]) -> Trace:
    return Trace("given", tuple(TraceRequest(*request) for request in requests))


def small_kv(tokens: int) -> EngineProfile:
    return replace(ENGINE, kv_capacity_tokens=tokens)
