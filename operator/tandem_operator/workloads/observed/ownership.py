"""A pool's own pods and ReplicaSets, found by their owners and not by their labels. Pure.

Any object can carry any label. A pod belongs to a pool if its controller is a ReplicaSet of a
Deployment of the pool. Each owner is known by its UID, which no client can choose.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_contracts.names import ROLE_LABEL
from tandem_operator.workloads.world import Object

ReplicaSets = Mapping[str, str]
"""The ReplicaSets of a pool: the component of each, by UID."""


def controller_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reference to the object that controls this one; empty if there is none."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return {}


def whose(body: Mapping[str, Any]) -> str:
    """Return the owner of an object, in words."""
    metadata = body["metadata"]
    owner = controller_of(body)
    if owner:
        return f"it belongs to {owner.get('kind')} {owner.get('name')}"
    labels = metadata.get("labels") or {}
    if tool := labels.get("app.kubernetes.io/managed-by"):
        release = labels.get("app.kubernetes.io/instance")
        return f"{tool} manages it" + (f" for {release}" if release else "")
    managers = [str(each.get("manager")) for each in metadata.get("managedFields") or ()]
    return f"{managers[0]} made it" if managers else "it names no owner"


def replica_set_uid(pod: Mapping[str, Any]) -> str | None:
    """Return the UID of the ReplicaSet that a pod names as its owner; `None` without one."""
    owner = controller_of(pod)
    uid = owner.get("uid")
    return str(uid) if owner.get("kind") == "ReplicaSet" and uid else None


def replica_sets_of(found: Iterable[Object], deployments: Iterable[Object]) -> ReplicaSets:
    """Return the ReplicaSets whose controller is one of the pool's Deployments."""
    components = {
        each["metadata"]["uid"]: str((each["metadata"].get("labels") or {}).get(ROLE_LABEL))
        for each in deployments
        if each.get("kind") == "Deployment" and "uid" in each["metadata"]
    }
    owned = {each["metadata"]["uid"]: controller_of(each).get("uid") for each in found}
    return {uid: components[owner] for uid, owner in owned.items() if owner in components}


def own_pods(pods: Iterable[Object], sets: ReplicaSets) -> tuple[Object, ...]:
    """Return the pods of these ReplicaSets that carry the label of their own component."""
    return tuple(
        pod
        for pod in pods
        if (component := sets.get(replica_set_uid(pod) or "")) is not None
        and (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == component
    )
