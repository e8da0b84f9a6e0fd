"""From the API's spec to what the core decides on: SI units, and nothing that restarts a pod."""

from tandem_operator.api import DecodeAdmission, Management, PrefillOverflow, Router, duration_s
from tandem_operator.api import PoolSpec as ApiSpec
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec


def policy_of(spec: ApiSpec) -> PoolSpec:
    """The part of the spec that a decision may depend on."""
    bounds, scaling = spec.slo.bounds(), spec.scaling
    return PoolSpec(
        slo=Slo(
            ttft_s=bounds.ttft_s,
            ttft_s_per_thousand_prompt_tokens=bounds.ttft_s_per_thousand_prompt_tokens,
            tpot_s=bounds.tpot_s,
            attainment=bounds.attainment,
        ),
        roles={role: _role_of(spec, role) for role in Role},
        mode=Mode(scaling.mode.value),
        gpu_budget=scaling.gpu_budget,
        stabilization_s=duration_s(scaling.stabilization),
        max_step=scaling.max_step,
        max_model_len=spec.model.max_model_len,
        max_num_seqs=spec.engine_of(Role.DECODE).max_num_seqs,
        priority=scaling.priority,
        insurance=insurance_of(spec.router),
    )


def external_roles(spec: ApiSpec) -> tuple[Role, ...]:
    """The roles whose replicas another owner sets."""
    return tuple(role for role in Role if spec.fleets[role].management is Management.EXTERNAL)


def insurance_of(router: Router) -> Insurance:
    """What sizing may count on of the pool's routers."""
    return Insurance(
        decode_gate=router.decode_admission is DecodeAdmission.KEEP_TPOT,
        overflow=router.prefill_overflow is PrefillOverflow.DECODE_SLACK,
    )


def _role_of(spec: ApiSpec, role: Role) -> RoleSpec:
    fleet = spec.fleets[role]
    return RoleSpec(
        min_replicas=fleet.min_replicas,
        max_replicas=fleet.max_replicas,
        gpus_per_replica=fleet.gpus,
        managed=fleet.management is Management.MANAGED,
    )
