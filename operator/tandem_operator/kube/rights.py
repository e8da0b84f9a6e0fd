"""What the operator asks of the API server, and no more: the chart's RBAC is compared with this."""

from dataclasses import dataclass

from tandem_operator.kube.kinds import (
    AUTOSCALER,
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    EVENT,
    HTTP_ROUTE,
    LEASE,
    NETWORK_POLICY,
    NODE,
    POD,
    POD_MONITOR,
    POOL,
    POOL_ROLE,
    REPLICA_SET,
    RESOURCE_QUOTA,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    ResourceKind,
)

_OWN = ("create", "delete", "get", "list", "patch")
_OWN_WATCHED = (*_OWN, "watch")


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource."""

    group: str
    resource: str
    verbs: tuple[str, ...]


def _right(kind: ResourceKind, verbs: tuple[str, ...], *, subresource: str = "") -> Right:
    return Right(kind.group, kind.plural + subresource, verbs)


POOL_RIGHTS = (
    _right(POOL, ("get", "list", "watch")),
    _right(POOL, ("patch",), subresource="/status"),
    _right(POOL_ROLE, _OWN),
    _right(POOL_ROLE, ("patch",), subresource="/status"),
    _right(DEPLOYMENT, _OWN_WATCHED),
    # What a router is granted, too: it tells pods of the pool from those that look like them.
    _right(REPLICA_SET, ("list", "watch")),
    _right(SERVICE, _OWN_WATCHED),
    # `get`, `list` and `watch` of pods and ConfigMaps are also what a router is granted.
    _right(CONFIG_MAP, _OWN_WATCHED),
    _right(POD, ("get", "list", "patch", "watch")),
    # To make one, and to read none: kube/engine_keys.py.
    _right(SECRET, ("create",)),
    # Not to delete one: the garbage collector does, with the pool.
    _right(CLAIM, ("create", "get", "list", "patch")),
    _right(SERVICE_ACCOUNT, _OWN),
    _right(ROLE, _OWN),
    _right(ROLE_BINDING, _OWN),
    _right(DISRUPTION_BUDGET, _OWN),
    _right(NETWORK_POLICY, _OWN),
    _right(POD_MONITOR, _OWN),
    _right(RESOURCE_QUOTA, ("list",)),
    _right(AUTOSCALER, ("list",)),
    _right(EVENT, ("create",)),
)
"""In every namespace with pools: a ClusterRole, or a Role in the one namespace served."""

ROUTE_RIGHTS = (_right(HTTP_ROUTE, _OWN),)
"""In the same namespaces, with `--gateway-routes`."""

CLUSTER_RIGHTS = (_right(NODE, ("list",)),)
"""Of the whole cluster, also where one namespace is served: which nodes are being emptied."""

LEASE_RIGHTS = (_right(LEASE, ("create", "get", "update")),)
"""In the Lease's namespace, with `--leader-elect`. Every ServiceAccount may `get` it, so that other
operators see that this one lives: kube/operators.py."""
