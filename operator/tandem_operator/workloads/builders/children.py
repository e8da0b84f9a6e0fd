"""All children of a pool as they should be, in the order in which they can be created."""

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
    """The pod template of each component; roles in `with_key` ask for the pool's key."""
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
) -> tuple[Object, ...]:
    """Every child but the memory.

    Args:
        pool: the pool.
        name: its name.
        installation: what the operator was installed with.
        templates: the pod template of each component.
        steps: how a rollout of each role may go on; routers hold no GPU.
        keeping_last: components whose only pod no eviction may take.
        pace: what the routers are told of a decode pod.
        routers: how many share it.
    """
    in_step: dict[str, RolloutStep] = dict(steps) | {ROUTER: RolloutStep.SURGE}
    return (
        *(service_account(name, component) for component in COMPONENTS),
        router_role(name),
        router_role_binding(name),
        settings_map(name, pool, pace, routers=routers),
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
