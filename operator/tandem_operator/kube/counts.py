"""The owner of a replica count: Tandem's writes, changes by others, and counts to set.

A count that another client set on a Managed role is no decision of Tandem to start from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tandem_operator.api import ConditionType
from tandem_operator.api.v1alpha1.pool import PoolSpec
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode
from tandem_operator.kube.apply import REPLICAS_MANAGER
from tandem_operator.kube.client import Object
from tandem_operator.kube.conflicts import owners_of
from tandem_operator.kube.kinds import DEPLOYMENT
from tandem_operator.workloads.observed.asked_counts import pool_roles_by_role
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.pool_spec import external_roles, policy_of
from tandem_operator.workloads.status.condition_now import TRUE
from tandem_operator.workloads.world import World


def as_if_ours(world: World, replicas: Mapping[str, int]) -> World:
    """Return the world with counts that other clients changed set back to ours.

    A count that `kubectl scale` set on a Managed role is not a decision of Tandem. So a plan for
    this world takes it back.
    """
    name = world.pool["metadata"]["name"]
    children = []
    for child in world.children:
        component = child["metadata"]["name"].removeprefix(f"{name}-")
        if child["kind"] == DEPLOYMENT.kind and component in replicas:
            left_alone = component in world.rivals and world.rivals[component].left_alone
            if not left_alone and not count_is_ours(child):
                child = {**child, "spec": {**child["spec"], "replicas": replicas[component]}}  # noqa: PLW2901
        children.append(child)
    return replace(world, children=tuple(children))


def count_is_ours(deployment: Object) -> bool:
    """Return whether no other client has set the replicas since Tandem did."""
    owners = owners_of(deployment, ("spec", "replicas"))
    return not owners or REPLICAS_MANAGER in owners


def asked_of(
    children: Iterable[Object], spec: PoolSpec | None, *, name: PoolName
) -> Mapping[str, int]:
    """Return the counts that others ask of External roles through their PoolRoles, by role.

    A count that only Tandem wrote, as a copy of the Deployment's, asks for nothing.
    """
    if spec is None:
        return {}
    roles = external_roles(spec)
    return {
        str(role): int(replicas)
        for role, found in pool_roles_by_role(children, name).items()
        if role in roles
        and (replicas := (found.get("spec") or {}).get("replicas")) is not None
        and _is_anothers(owners_of(found, ("spec", "replicas")), int(replicas))
    }


def _is_anothers(owners: frozenset[str], replicas: int) -> bool:
    # Kubernetes (1.34) records no owner of a zero written by /scale: it counts as a missing field.
    return bool(owners - {REPLICAS_MANAGER}) or (not owners and replicas == 0)


def managed(spec: PoolSpec | None) -> frozenset[str]:
    """Return the components whose replicas Tandem sets."""
    if spec is None:
        return frozenset()
    policy = policy_of(spec)
    roles = {str(role) for role in Role if policy.mode is Mode.AUTO and policy.roles[role].managed}
    return frozenset(roles if policy.mode is Mode.PAUSED else {*roles, ROUTER})


def replicas_last_decided(pool: Object, spec: PoolSpec | None) -> Mapping[str, int]:
    """Return the counts that the process before this one wrote, by the pool's status.

    Only a spec that was in force counts: before an edit, another owner may have had a role.
    """
    status = pool.get("status") or {}
    if spec is None or not _in_force(status, pool["metadata"].get("generation")):
        return {}
    policy = policy_of(spec)
    ours = [role for role in Role if policy.mode is Mode.AUTO and policy.roles[role].managed]
    desired = {role.value: (status.get(role.value) or {}).get("desired") for role in ours}
    return {role: count for role, count in desired.items() if count is not None}


def _in_force(status: Mapping[str, Any], generation: Any) -> bool:
    """Return whether the status is of this generation, and no part of it was refused."""
    return any(
        each.get("type") == ConditionType.ACCEPTED
        and each.get("status") == TRUE
        and each.get("observedGeneration") == generation
        for each in status.get("conditions") or ()
    )
