"""Which pods are the pool's: those whose ReplicaSet belongs to one of its Deployments.

Anybody who may create pods can give them the pool's labels. A pod that names no ReplicaSet of the
pool gets no request. ReplicaSets are known before their pods are Ready, and their UIDs are never
used twice, so what was once known stays true.
"""

import logging
from collections.abc import Mapping
from typing import Any

from tandem_engine.router.pod import Role

logger = logging.getLogger(__name__)


class Owners:
    """The ReplicaSets of one pool, as far as they were listed.

    Attributes:
        known: whether it can be told whose a pod is.
    """

    def __init__(self, pool: str) -> None:
        self._deployments = {f"{pool}-{role}": role for role in Role}
        self._roles: dict[str, Role] = {}
        self._by_name = False
        self.known = False

    def add(self, replica_set: Mapping[str, Any]) -> bool:
        """Take note of a ReplicaSet; tells whether that is news."""
        metadata = replica_set["metadata"]
        owner = _controller(metadata)
        role = self._deployments.get(str(owner.get("name")))
        if owner.get("kind") != "Deployment" or role is None or metadata["uid"] in self._roles:
            return False
        self._roles[metadata["uid"]] = role
        return True

    def refuse(self) -> None:
        """Go by the names of ReplicaSets: this router may not list them.

        An operator of before gives no such right, and clients must be served.
        """
        if not self._by_name:
            logger.warning("not allowed to list ReplicaSets: pods are told by their owners' names")
        self._by_name = self.known = True

    def own(self, pod: Mapping[str, Any], role: Role) -> bool:
        """Return whether a pod of this role is the pool's."""
        owner = _controller(pod["metadata"])
        if owner.get("kind") != "ReplicaSet":
            return False
        if self._by_name:
            name = str(owner.get("name"))
            return self._deployments.get(name.rpartition("-")[0]) is role
        return self._roles.get(str(owner.get("uid"))) is role


def _controller(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return {}
