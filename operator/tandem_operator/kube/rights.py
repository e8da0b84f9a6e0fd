"""The rights that the operator needs, and no more: tests compare the chart's RBAC with them."""

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
    # A router has this right, too: it distinguishes pods of the pool from similar ones.
    _right(REPLICA_SET, ("list", "watch")),
    _right(SERVICE, _OWN_WATCHED),
    # A router also has `get`, `list` and `watch` of pods and ConfigMaps.
    _right(CONFIG_MAP, _OWN_WATCHED),
    _right(POD, ("get", "list", "patch", "watch")),
    # Create one, but read none: kube/engine_keys.py.
    _right(SECRET, ("create",)),
    # Without `delete`: the garbage collector deletes it with the pool.
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
"""Rights in every namespace with pools: a ClusterRole, or a Role in the one namespace served."""

ROUTE_RIGHTS = (_right(HTTP_ROUTE, _OWN),)
"""Rights in the same namespaces, with `--gateway-routes`."""

CLUSTER_RIGHTS = (_right(NODE, ("list",)),)
"""Cluster-wide rights, also with one namespace: to see which nodes are being drained."""

LEASE_RIGHTS = (_right(LEASE, ("create", "get", "update")),)
"""Rights in the Lease's namespace, with `--leader-elect`. Every ServiceAccount may `get` it, so
that other operators see that this one is alive: kube/operators.py."""
