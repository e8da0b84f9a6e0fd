"""Names and owners of a pool's children."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem_contracts.names import HTTP_PORT
from tandem_operator.api import API_VERSION, KIND
from tandem_operator.core.role import Role
from tandem_operator.workloads.world import Object

ROUTER = "router"
ENGINE = "engine"
"""The container of an engine pod that the launcher runs in."""
LAUNCHER = "launcher"
"""The init container of an engine pod that brings the launcher, and its volume."""
GPU_CLAIM = "gpus"
"""The name of a pod's claim of GPUs."""
GPUS_OPTION = "--tensor-parallel-size"
"""The launcher's option for the number of GPUs of an engine."""
MEMORY_KEY = "memory.json"


def own_containers(component: str) -> Mapping[str, str]:
    """Return Tandem's own containers, by their list in a pod of the component."""
    if component == ROUTER:
        return {"containers": ROUTER}
    return {"containers": ENGINE, "initContainers": LAUNCHER}


@dataclass(frozen=True, slots=True)
class PoolName:
    """One pool's identity, and the names of its children."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, pool: Mapping[str, Any]) -> "PoolName":
        """Return the identity of a pool as stored in the API server."""
        metadata = pool["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"])

    def child(self, component: str) -> str:
        """Return the name of a component's Deployment, ServiceAccount, budget and Service."""
        return f"{self.name}-{component}"

    @property
    def router_internal(self) -> str:
        """Return the name of the Service in front of the routers' internal port."""
        return f"{self.name}-router-internal"

    @property
    def memory(self) -> str:
        """Return the name of the ConfigMap with the operator's memory of the pool."""
        return f"{self.name}-memory"

    @property
    def cache(self) -> str:
        """Return the name of the PersistentVolumeClaim that Tandem makes for its engines' cache."""
        return f"{self.name}-cache"

    @property
    def engine_key(self) -> str:
        """Return the name of the Secret with the key of its engines.

        No earlier pool has a Secret of this name: the operator could not read whose it is.
        """
        return f"{self.name}-engine-key-{hashlib.sha256(self.uid.encode()).hexdigest()[:8]}"

    @property
    def endpoint(self) -> str:
        """Return the URL at which clients inside the cluster reach the pool."""
        return f"http://{self.child(ROUTER)}.{self.namespace}.svc"

    def engine_url(self, role: Role) -> str:
        """Return the URL of the role's headless Service, inside the pool's namespace."""
        return f"http://{self.child(role)}:{HTTP_PORT}"

    def head(self, *, api_version: str, kind: str, child: str, labels: dict[str, str]) -> Object:
        """Return the head of a child: identity, labels, and the owner whose deletion deletes it."""
        return {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": child,
                "namespace": self.namespace,
                "labels": labels,
                "ownerReferences": [
                    {
                        "apiVersion": API_VERSION,
                        "kind": KIND,
                        "name": self.name,
                        "uid": self.uid,
                        "controller": True,
                        "blockOwnerDeletion": False,
                    }
                ],
            },
        }


def key_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of an object, which identify it among the children of one pool."""
    return str(body.get("kind", "")), str((body.get("metadata") or {}).get("name", ""))
