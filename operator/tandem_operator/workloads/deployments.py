"""Deployments: one builder for every component. Replica counts never stand in them."""

from collections.abc import Mapping

from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.workloads.labels import labels_of, selector_of
from tandem_operator.workloads.names import PoolName
from tandem_operator.workloads.pods import Template
from tandem_operator.workloads.world import Object

PROGRESS_DEADLINE_S = 3600


def deployment(name: PoolName, component: str, template: Template, *, surge: bool) -> Object:
    """A component's Deployment, without `spec.replicas`, which is written by a manager of its own.

    Args:
        name: the pool.
        component: a role or the router.
        template: its pods.
        surge: whether a rollout may start the new pod before it stops an old one.
    """
    head = name.head(
        api_version="apps/v1",
        kind="Deployment",
        child=name.child(component),
        labels=labels_of(name, component),
    )
    rolling = {"maxSurge": int(surge), "maxUnavailable": int(not surge)}
    spec = {
        "selector": {"matchLabels": selector_of(name, component)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": PROGRESS_DEADLINE_S,
        "template": template.body,
    }
    return head | {"spec": spec}


def surging_roles(policy: PoolSpec, replicas: Mapping[Role, int]) -> frozenset[Role]:
    """Roles whose rollout may hold one replica more than it serves with, inside the GPU budget."""
    if policy.gpu_budget is None:
        return frozenset(Role)
    held = sum(replicas[role] * policy.roles[role].gpus_per_replica for role in Role)
    surging = set()
    for role in Role:
        needed = policy.roles[role].gpus_per_replica
        if held + needed <= policy.gpu_budget:
            held += needed
            surging.add(role)
    return frozenset(surging)
