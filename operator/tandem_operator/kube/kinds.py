"""The kinds that the operator reads and writes, as data: no typed API class is ever imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of the Kubernetes API and its place there."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """Return the API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def root(self) -> str:
        """Return the path of this kind's group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(
        self, *, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the path of a collection, an object or a subresource; `None`: all namespaces."""
        where = f"namespaces/{namespace}" if namespace is not None else None
        parts = [self.root, where, self.plural, name, subresource]
        return "/".join(part for part in parts if part)

    def head_of(self, found: Mapping[str, Any], *, also: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the head of an applied body, which names the object that was read.

        It contains the object's UID. If the object was deleted meanwhile, applying the body creates
        no new object, and changes no other object with its name.
        """
        metadata = found["metadata"]
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: metadata[key] for key in ("namespace", "name", "uid", *also)},
        }


POOL = ResourceKind("tandem-inference.io/v1alpha1", "InferencePool", "inferencepools")
POOL_ROLE = ResourceKind("tandem-inference.io/v1alpha1", "PoolRole", "poolroles")
DEPLOYMENT = ResourceKind("apps/v1", "Deployment", "deployments")
REPLICA_SET = ResourceKind("apps/v1", "ReplicaSet", "replicasets")
POD = ResourceKind("v1", "Pod", "pods")
SERVICE = ResourceKind("v1", "Service", "services")
CONFIG_MAP = ResourceKind("v1", "ConfigMap", "configmaps")
SECRET = ResourceKind("v1", "Secret", "secrets")
CLAIM = ResourceKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE_ACCOUNT = ResourceKind("v1", "ServiceAccount", "serviceaccounts")
ROLE = ResourceKind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING = ResourceKind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
DISRUPTION_BUDGET = ResourceKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = ResourceKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
POD_MONITOR = ResourceKind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
HTTP_ROUTE = ResourceKind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes")
NODE = ResourceKind("v1", "Node", "nodes")
AUTOSCALER = ResourceKind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
RESOURCE_QUOTA = ResourceKind("v1", "ResourceQuota", "resourcequotas")
EVENT = ResourceKind("events.k8s.io/v1", "Event", "events")
# The same objects, in the group whose Events Kubernetes' own role `view` may list.
CORE_EVENT = ResourceKind("v1", "Event", "events")
LEASE = ResourceKind("coordination.k8s.io/v1", "Lease", "leases")

CHILDREN = (
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    CONFIG_MAP,
    NETWORK_POLICY,
    CLAIM,
    SERVICE,
    DISRUPTION_BUDGET,
    DEPLOYMENT,
    POOL_ROLE,
    POD_MONITOR,
    HTTP_ROUTE,
)
OPTIONAL = (POOL_ROLE, POD_MONITOR, HTTP_ROUTE)
"""Children whose kind an API server may lack: it is of another project, or of a newer CRD."""
BY_NAME = {kind.kind: kind for kind in (POOL, POD, EVENT, LEASE, *CHILDREN)}
