"""The core's spec from the API's: SI units, and no field that restarts a pod."""

from tandem_contracts.router_settings import OTHER_TENANTS
from tandem_operator import api
from tandem_operator.api import (
    DecodeAdmission,
    Management,
    PrefillOverflow,
    PrefillPodChoice,
    Router,
    Service,
    SloBounds,
    WhenLate,
    duration_s,
)
from tandem_operator.api import PoolSpec as ApiSpec
from tandem_operator.core.role import Role
from tandem_operator.core.slo import DEFAULT_CLASS, Slo, SloClass, strictest
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec


def policy_of(spec: ApiSpec) -> PoolSpec:
    """Return the part of the spec that a decision may depend on."""
    bounds, scaling = spec.slo.bounds(), spec.scaling
    classes = classes_of(spec.slo)
    return PoolSpec(
        slo=strictest([each.slo for each in classes if each.guaranteed]) or _slo_of(bounds),
        roles={role: _role_of(spec, role) for role in Role},
        mode=Mode(scaling.mode.value),
        gpu_budget=scaling.gpu_budget,
        stabilization_s=duration_s(scaling.stabilization),
        max_step=scaling.max_step,
        max_model_len=spec.model.max_model_len,
        max_num_seqs=spec.engine_of(Role.DECODE).max_num_seqs,
        priority=scaling.priority,
        insurance=insurance_of(spec.router),
        sleep_after_s=None
        if scaling.scale_to_zero_after is None
        else duration_s(scaling.scale_to_zero_after),
        classes=classes,
        tenants=tenants_of(spec.router),
    )


def classes_of(slo: api.Slo) -> tuple[SloClass, ...]:
    """Return all classes of a pool, with that of requests that name none; empty: it has none."""
    found = tuple(
        SloClass(
            name=each.name,
            slo=_slo_of(slo.bounds_of(each)),
            guaranteed=each.service is Service.GUARANTEED,
            priority=each.priority,
            refuse_late=each.when_late is WhenLate.REFUSE,
        )
        for each in slo.classes or ()
    )
    if not found or any(each.name == DEFAULT_CLASS for each in found):
        return found
    return (SloClass(DEFAULT_CLASS, _slo_of(slo.bounds())), *found)


def tenants_of(router: Router) -> tuple[str, ...]:
    """Return the names of a pool's tenants, and that of all others; empty: it has no tenants."""
    if router.tenants is None:
        return ()
    return (*(each.name for each in router.tenants.named or ()), OTHER_TENANTS)


def _slo_of(bounds: SloBounds) -> Slo:
    return Slo(
        ttft_s=bounds.ttft_s,
        ttft_s_per_thousand_prompt_tokens=bounds.ttft_s_per_thousand_prompt_tokens,
        tpot_s=bounds.tpot_s,
        attainment=bounds.attainment,
    )


def external_roles(spec: ApiSpec) -> tuple[Role, ...]:
    """Return the roles whose replicas another owner sets."""
    return tuple(role for role in Role if spec.fleets[role].management is Management.EXTERNAL)


def insurance_of(router: Router) -> Insurance:
    """Return the router settings that sizing can count on."""
    return Insurance(
        decode_gate=router.decode_admission is DecodeAdmission.KEEP_TPOT,
        overflow=router.prefill_overflow is PrefillOverflow.DECODE_SLACK,
    )


def by_prefix(spec: ApiSpec) -> bool:
    """Return whether routers choose prefill pods by the cached part of a prompt."""
    caching = spec.engine_of(Role.PREFILL).prefix_caching
    return caching and spec.router.prefill_placement is PrefillPodChoice.PREFIX


def _role_of(spec: ApiSpec, role: Role) -> RoleSpec:
    fleet = spec.fleets[role]
    return RoleSpec(
        min_replicas=fleet.min_replicas,
        max_replicas=fleet.max_replicas,
        gpus_per_replica=fleet.gpus,
        managed=fleet.management is Management.MANAGED,
    )
