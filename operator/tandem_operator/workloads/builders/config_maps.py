"""ConfigMaps: the router's settings with the SLO, and the operator's memory of the pool."""

import json
from collections.abc import Mapping
from typing import Literal

from tandem_contracts.names import SETTINGS_KEY
from tandem_contracts.router_settings import (
    ClassSettings,
    KvSettings,
    LimitSettings,
    PaceSettings,
    RouterSettings,
    SloSettings,
    TenantSettings,
    TenantsSettings,
    TimeoutSettings,
    TracingSettings,
)
from tandem_operator import api
from tandem_operator.api import (
    InferencePool,
    OtherTenants,
    PoolSpec,
    RequestLog,
    Router,
    Tenants,
    duration_s,
)
from tandem_operator.core.explain.tick_result import rounded
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.workloads.builders.engine_args import KV_LEASE_S
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pool_names import MEMORY_KEY, ROUTER, PoolName
from tandem_operator.workloads.pool_spec import by_prefix, insurance_of, policy_of
from tandem_operator.workloads.world import Object

PACE_DIGITS = 4
_REQUEST_LOGS: Mapping[RequestLog, Literal["off", "missed", "all"]] = {
    RequestLog.OFF: "off",
    RequestLog.MISSED: "missed",
    RequestLog.ALL: "all",
}


def router_settings(
    pool: InferencePool,
    pace: TimedDecodePace | None,
    *,
    routers: int,
    wake_s: float | None = None,
) -> RouterSettings:
    """Return `router.json`: settings that an edit changes without a restart, and learned values.

    `pace` is the speed of a decode pod, and `routers` is the number of routers that share it.
    `wake_s` is the time for which they hold a request while the pool is at zero.
    """
    spec, policy = pool.spec, policy_of(pool.spec)
    return RouterSettings(
        schema_version=1,
        pool=pool.metadata.name,
        generation=pool.metadata.generation,
        models=spec.model.names,
        max_model_len=spec.model.max_model_len,
        slo=_slo(policy.slo),
        classes=tuple(_class(each, spec.slo) for each in policy.classes),
        tenants=None if spec.router.tenants is None else _tenants(spec.router.tenants),
        limits=LimitSettings(**spec.router.limits.model_dump()),
        timeouts=_timeouts(spec),
        kv=KvSettings(lease_s=KV_LEASE_S),
        decode=_decode(pace, spec.router, routers=routers) if pace is not None else None,
        prefix_placement=by_prefix(spec),
        cache_salt_header=spec.router.cache_salt_header,
        request_log=_REQUEST_LOGS[spec.router.request_log],
        wake_s=wake_s,
        tracing=None
        if spec.router.tracing is None
        else TracingSettings(
            endpoint=spec.router.tracing.endpoint,
            sampling_ratio=spec.router.tracing.sampling_ratio,
        ),
    )


def _slo(slo: Slo) -> SloSettings:
    return SloSettings(
        ttft_s=slo.ttft_s,
        ttft_s_per_thousand_prompt_tokens=slo.ttft_s_per_thousand_prompt_tokens,
        tpot_s=slo.tpot_s,
        attainment=slo.attainment,
    )


def _class(each: SloClass, given: api.Slo) -> ClassSettings:
    written = next((one for one in given.classes or () if one.name == each.name), None)
    return ClassSettings(
        name=each.name,
        slo=_slo(each.slo),
        guaranteed=each.guaranteed,
        priority=each.priority,
        refuse_late=each.refuse_late,
        models=() if written is None else tuple(written.models or ()),
        keys=() if written is None else tuple(written.keys or ()),
    )


def _tenants(given: Tenants) -> TenantsSettings:
    return TenantsSettings(
        header=given.header,
        named=tuple(
            TenantSettings(
                name=each.name,
                keys=tuple(each.keys or ()),
                weight=each.weight,
                requests_per_minute=each.requests_per_minute,
                tokens_per_minute=each.tokens_per_minute,
            )
            for each in given.named or ()
        ),
        others="shared" if given.others is OtherTenants.SHARED else "separate",
        requests_per_minute=given.requests_per_minute,
        tokens_per_minute=given.tokens_per_minute,
    )


def settings_map(
    name: PoolName,
    pool: InferencePool,
    pace: TimedDecodePace | None,
    *,
    routers: int,
    wake_s: float | None = None,
) -> Object:
    """Return the ConfigMap that the routers watch."""
    head = name.head(
        api_version="v1",
        kind="ConfigMap",
        child=name.child(ROUTER),
        labels=labels_of(name, ROUTER),
    )
    settings = router_settings(pool, pace, routers=routers, wake_s=wake_s)
    # The ConfigMap of a pool without tenants stays as it was before there were any.
    unused = {"tenants"} if settings.tenants is None else set()
    document = settings.model_dump(mode="json", by_alias=True, exclude=unused)
    text = json.dumps(document, indent=2) + "\n"
    return head | {"data": {SETTINGS_KEY: text}}


def memory_map(name: PoolName, memory: str, *, written: str) -> Object:
    """Return the ConfigMap from which a restarted operator reads its memory."""
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
