"""All children of a pool as they should be, in the order of their creation."""

from collections.abc import Mapping, Set

from tandem_operator.api import InferencePool
from tandem_operator.core.guard.rollout import RolloutStep
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.workloads.builders import weights
from tandem_operator.workloads.builders.config_maps import settings_map
from tandem_operator.workloads.builders.deployments import deployment
from tandem_operator.workloads.builders.network import network_policies
from tandem_operator.workloads.builders.pod_templates import (
    Template,
    engine_template,
    router_template,
)
from tandem_operator.workloads.builders.pool_roles import pool_role
from tandem_operator.workloads.builders.services import (
    COMPONENTS,
    disruption_budget,
    engine_service,
    pod_monitor,
    router_internal_service,
    router_role,
    router_role_binding,
    router_service,
    service_account,
)
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.pool_spec import external_roles
from tandem_operator.workloads.world import Installation, Object


def templates_of(
    pool: InferencePool,
    *,
    name: PoolName,
    installation: Installation,
    with_key: frozenset[Role],
) -> Mapping[str, Template]:
    """Return the pod template of each component; roles in `with_key` ask for the pool's key."""
    templates: dict[str, Template] = {
        role: engine_template(
            pool.spec, role, name=name, installation=installation, with_key=role in with_key
        )
        for role in Role
    }
    templates[ROUTER] = router_template(pool.spec, name=name, installation=installation)
    return templates


def children_of(
    pool: InferencePool,
    *,
    name: PoolName,
    installation: Installation,
    templates: Mapping[str, Template],
    steps: Mapping[Role, RolloutStep],
    keeping_last: Set[str],
    pace: TimedDecodePace | None = None,
    routers: int,
    wake_s: float | None = None,
) -> tuple[Object, ...]:
    """Return every child except the memory.

    Args:
        pool: the pool.
        name: its name.
        installation: the operator's installation.
        templates: the pod template of each component.
        steps: the next rollout step of each role; routers hold no GPU.
        keeping_last: components whose only pod no eviction may take.
        pace: the speed of a decode pod, for the routers.
        routers: number of routers that share it.
        wake_s: time for which routers hold a request while the pool is at zero.
    """
    in_step: dict[str, RolloutStep] = dict(steps) | {ROUTER: RolloutStep.SURGE}
    return (
        *(service_account(name, component) for component in COMPONENTS),
        router_role(name),
        router_role_binding(name),
        settings_map(name, pool, pace, routers=routers, wake_s=wake_s),
        *network_policies(pool.spec, name=name, installation=installation),
        *weights.cache_claim(pool.spec.model.cache, name=name),
        *(engine_service(name, role) for role in Role),
        router_service(name),
        router_internal_service(name),
        *(
            disruption_budget(name, component, keeps_last=component in keeping_last)
            for component in COMPONENTS
        ),
        *(
            deployment(
                name,
                component,
                templates[component],
                step=in_step[component],
            )
            for component in COMPONENTS
        ),
        *(pool_role(name, role) for role in external_roles(pool.spec) if installation.pool_roles),
        *([pod_monitor(name)] if installation.pod_monitors else []),
    )
