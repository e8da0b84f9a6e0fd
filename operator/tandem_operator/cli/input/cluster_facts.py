"""The facts that a cluster reports, as plain data: the input of `tandem doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tandem_operator.kube.rights import Right

Object = Mapping[str, Any]


class Topic(StrEnum):
    """A part of the cluster that is read as a whole, or cannot be read."""

    SERVER = "API server"
    DEFINITION = "CRD"
    OPERATOR = "operator"
    OPERATOR_RIGHTS = "rights of the operator"
    USER_RIGHTS = "your rights"
    NODES = "GPUs"
    CLAIMS = "GPU claims"
    RDMA = "RDMA"
    NETWORK = "NetworkPolicies"
    GATEWAY = "Gateway API"
    METRICS = "metrics"
    POOLS = "pools"
    PODS = "images"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFacts:
    """One Deployment of an operator.

    Attributes:
        version: the value of its label.
        namespaces: the namespaces that it serves; empty: all.
        gateway_routes: whether it writes HTTPRoutes.
        refused: rights that its account lacks, each with its namespace; `None`: unknown.
        prometheus: URL of the server for pools that name none; empty: it has none.
    """

    namespace: str
    name: str
    image: str
    version: str
    wanted: int
    ready: int
    account: str
    namespaces: tuple[str, ...] = ()
    gateway_routes: bool = False
    refused: tuple[tuple[str, Right], ...] | None = None
    prometheus: str = ""

    @property
    def title(self) -> str:
        """Return its name as kubectl shows it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Everything that was read, and the reasons for unread parts.

    Attributes:
        namespace: the only namespace whose pools are checked; `None`: all.
        definition: the CRD of pools; `None` where there is none.
        role_definition: the CRD of PoolRoles.
        user_refused: rights that the user lacks, and the commands that need them.
        pods: pods of operators and pools.
        monitors: the kinds of the Prometheus Operator that the cluster knows.
        serves_routes: whether the cluster knows HTTPRoute, if a pool asks for a Gateway.
        claim_templates: the ResourceClaimTemplates that pools name; `None` where there is none.
        services: whether each Service exists that a pool or an operator names as its Prometheus.
        unread_tokens: Secrets with a token for Prometheus that a pool names and no operator may
            read, as namespace and name.
        unread: the reason why a part could not be read.
    """

    cli_version: str
    server_version: str
    namespace: str | None
    definition: Object | None = None
    role_definition: Object | None = None
    operators: tuple[OperatorFacts, ...] = ()
    user_refused: tuple[tuple[Right, str], ...] = ()
    nodes: tuple[Object, ...] = ()
    pools: tuple[Object, ...] = ()
    pool_roles: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    monitors: frozenset[str] = frozenset()
    serves_routes: bool = True
    services: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    claim_templates: Mapping[tuple[str, str], Object | None] = field(default_factory=dict)
    unread_tokens: tuple[tuple[str, str], ...] = ()
    unread: Mapping[Topic, str] = field(default_factory=dict)
