"""The pods that belong to the pool: their ReplicaSet belongs to one of its Deployments.

Every user with the right to create pods can give them the pool's labels. So a pod without a
ReplicaSet of the pool gets no request and, as a router, no messages. ReplicaSets are known before
their pods are Ready. Their UIDs are never used twice, so known owners stay valid.
"""

import logging
from collections.abc import Mapping
from typing import Any

from tandem_engine.router.pods.pod import Role

ROUTER = "router"

logger = logging.getLogger(__name__)


class Owners:
    """The ReplicaSets of one pool that were listed so far.

    Attributes:
        known: whether the owner of a pod can be decided.
    """

    def __init__(self, pool: str) -> None:
        components = (*map(str, Role), ROUTER)
        self._deployments = {f"{pool}-{component}": component for component in components}
        self._components: dict[str, str] = {}
        self._by_name = False
        self.known = False

    def add(self, replica_set: Mapping[str, Any]) -> bool:
        """Add a ReplicaSet; return whether it was unknown."""
        metadata = replica_set["metadata"]
        owner = _controller(metadata)
        component, uid = self._deployments.get(str(owner.get("name"))), metadata["uid"]
        if owner.get("kind") != "Deployment" or component is None or uid in self._components:
            return False
        self._components[uid] = component
        return True

    def refuse(self) -> None:
        """Decide by the names of ReplicaSets, because this router has no right to list them.

        An older operator does not grant this right, and clients must be served.
        """
        if not self._by_name:
            logger.warning("not allowed to list ReplicaSets: pods are told by their owners' names")
        self._by_name = self.known = True

    def own(self, pod: Mapping[str, Any], component: str) -> bool:
        """Return whether a pod of this role, or a router, belongs to the pool."""
        owner = _controller(pod["metadata"])
        if owner.get("kind") != "ReplicaSet":
            return False
        if self._by_name:
            name = str(owner.get("name"))
            return self._deployments.get(name.rpartition("-")[0]) == component
        return self._components.get(str(owner.get("uid"))) == component


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return {}
