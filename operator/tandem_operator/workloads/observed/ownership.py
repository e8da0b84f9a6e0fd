"""Which pods and ReplicaSets are a pool's own: by whose they are, not by their labels. Pure.

Labels can be put on anything. A pod belongs to the pool where its controller is a ReplicaSet, whose
controller is a Deployment, whose controller is the pool; each by its UID, which nobody chooses.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_contracts.names import ROLE_LABEL
from tandem_operator.workloads.world import Object

ReplicaSets = Mapping[str, str]
"""Of a pool: the component that each is of, by UID."""


def controller_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the object that controls this one; empty where none does."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return {}


def whose(body: Mapping[str, Any]) -> str:
    """Who an object belongs to, in words."""
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
    """UID of the ReplicaSet that a pod says it is of; `None` where it says none."""
    owner = controller_of(pod)
    uid = owner.get("uid")
    return str(uid) if owner.get("kind") == "ReplicaSet" and uid else None


def replica_sets_of(found: Iterable[Object], deployments: Iterable[Object]) -> ReplicaSets:
    """The ReplicaSets whose controller is one of the pool's Deployments."""
    components = {
        each["metadata"]["uid"]: str((each["metadata"].get("labels") or {}).get(ROLE_LABEL))
        for each in deployments
        if each.get("kind") == "Deployment" and "uid" in each["metadata"]
    }
    owned = {each["metadata"]["uid"]: controller_of(each).get("uid") for each in found}
    return {uid: components[owner] for uid, owner in owned.items() if owner in components}


def own_pods(pods: Iterable[Object], sets: ReplicaSets) -> tuple[Object, ...]:
    """The pods of these ReplicaSets that carry the label of their own component."""
    return tuple(
        pod
        for pod in pods
        if (component := sets.get(replica_set_uid(pod) or "")) is not None
        and (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == component
    )
