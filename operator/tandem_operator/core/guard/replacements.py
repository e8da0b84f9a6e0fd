"""Replicas in place of sick pods: only pods that serve are capacity."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.spec import PoolSpec


def with_stand_ins(choice: Choice, fleets: Mapping[Role, RolePods], *, spec: PoolSpec) -> Choice:
    """Return the choice with one replica more for each sick one, up to `maxReplicas`.

    Kubernetes removes pods that are not Ready first. So when a sick pod recovers or is gone, the
    extra replica is spare.
    """
    target = {
        role: max(count, min(count + len(fleets[role].sick), spec.roles[role].max_replicas))
        for role, count in choice.target.items()
    }
    return replace(choice, target=target)
