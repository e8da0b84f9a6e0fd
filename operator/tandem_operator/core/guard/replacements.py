"""Pods in the place of those that are sick: capacity is what serves, not what was asked for."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.spec import PoolSpec


def with_stand_ins(choice: Choice, fleets: Mapping[Role, RolePods], *, spec: PoolSpec) -> Choice:
    """The choice with one replica more for each sick one, up to `maxReplicas`.

    Kubernetes removes pods that are not Ready first: once one recovers or is gone, the replica
    that stood in for it is spare.
    """
    target = {
        role: max(count, min(count + len(fleets[role].sick), spec.roles[role].max_replicas))
        for role, count in choice.target.items()
    }
    return replace(choice, target=target)
