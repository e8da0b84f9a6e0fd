"""ConfigMaps: the router's settings, which carry the SLO, and the operator's memory of the pool."""

import json
from collections.abc import Mapping
from typing import Literal

from tandem_contracts.names import SETTINGS_KEY
from tandem_contracts.router_settings import (
    KvSettings,
    LimitSettings,
    PaceSettings,
    RouterSettings,
    SloSettings,
    TimeoutSettings,
    TracingSettings,
)
from tandem_operator.api import InferencePool, PoolSpec, RequestLog, Router, duration_s
from tandem_operator.core.explain.tick_result import rounded
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.workloads.builders.engine_args import KV_LEASE_S
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pool_names import MEMORY_KEY, ROUTER, PoolName
from tandem_operator.workloads.pool_spec import insurance_of
from tandem_operator.workloads.world import Object

PACE_DIGITS = 4
_REQUEST_LOGS: Mapping[RequestLog, Literal["off", "missed", "all"]] = {
    RequestLog.OFF: "off",
    RequestLog.MISSED: "missed",
    RequestLog.ALL: "all",
}


def router_settings(
    pool: InferencePool, pace: TimedDecodePace | None, *, routers: int
) -> RouterSettings:
    """`router.json`: all that an edit may change without restarting anything, and what was learned.

    `pace` is what the routers should know of a decode pod, and `routers` how many share it.
    """
    spec, bounds = pool.spec, pool.spec.slo.bounds()
    return RouterSettings(
        schema_version=1,
        pool=pool.metadata.name,
        generation=pool.metadata.generation,
        models=spec.model.names,
        max_model_len=spec.model.max_model_len,
        slo=SloSettings(
            ttft_s=bounds.ttft_s,
            ttft_s_per_thousand_prompt_tokens=bounds.ttft_s_per_thousand_prompt_tokens,
            tpot_s=bounds.tpot_s,
            attainment=bounds.attainment,
        ),
        limits=LimitSettings(**spec.router.limits.model_dump()),
        timeouts=_timeouts(spec),
        kv=KvSettings(lease_s=KV_LEASE_S),
        decode=_decode(pace, spec.router, routers=routers) if pace is not None else None,
        cache_salt_header=spec.router.cache_salt_header,
        request_log=_REQUEST_LOGS[spec.router.request_log],
        tracing=None
        if spec.router.tracing is None
        else TracingSettings(
            endpoint=spec.router.tracing.endpoint,
            sampling_ratio=spec.router.tracing.sampling_ratio,
        ),
    )


def settings_map(
    name: PoolName, pool: InferencePool, pace: TimedDecodePace | None, *, routers: int
) -> Object:
    """The ConfigMap that the routers watch."""
    head = name.head(
        api_version="v1",
        kind="ConfigMap",
        child=name.child(ROUTER),
        labels=labels_of(name, ROUTER),
    )
    document = router_settings(pool, pace, routers=routers).model_dump(mode="json", by_alias=True)
    text = json.dumps(document, indent=2) + "\n"
    return head | {"data": {SETTINGS_KEY: text}}


def memory_map(name: PoolName, memory: str, *, written: str) -> Object:
    """The ConfigMap that a restarted operator reads its memory from."""
    head = name.head(api_version="v1", kind="ConfigMap", child=name.memory, labels=labels_of(name))
    return head | {"data": {MEMORY_KEY: memory, WRITTEN_KEY: written}}


WRITTEN_KEY = "written"


def _decode(pace: TimedDecodePace, router: Router, *, routers: int) -> PaceSettings | None:
    capacity, use = pace.kv_capacity_tokens, insurance_of(router)
    if not use.decode_gate and not use.overflow:
        return None
    least_s, per_stream_s, per_token_s = (rounded(second, PACE_DIGITS) for second in pace.steps)
    return PaceSettings(
        step_s=(least_s, per_stream_s, per_token_s),
        kv_capacity_tokens=None if capacity is None else max(1, round(capacity)),
        max_num_seqs=pace.max_num_seqs,
        output_tokens=None if pace.output_tokens is None else max(1, round(pace.output_tokens)),
        routers=routers,
        gate=use.decode_gate,
        overflow=use.overflow,
    )


def _timeouts(spec: PoolSpec) -> TimeoutSettings:
    given = spec.router.timeouts.model_dump()
    return TimeoutSettings(**{f"{phase}_s": duration_s(text) for phase, text in given.items()})
