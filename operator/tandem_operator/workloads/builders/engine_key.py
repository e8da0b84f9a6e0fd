"""The pool's key: engines ask for it, routers have it. Which pods get it when. Pure.

A router with a key serves engines without one, a router without it no engine that asks. So where
pods run already, routers are given it first, and engines once no router is without it.
"""

from tandem_contracts.names import KEY_ANNOTATION, KEY_ENV, ROLE_LABEL
from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pod_status import has_ended
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import Object, World

_FIELD = "key"


def key_secret(name: PoolName, key: str) -> Object:
    """The Secret that holds it, for good."""
    head = name.head(api_version="v1", kind="Secret", child=name.engine_key, labels=labels_of(name))
    return head | {"type": "Opaque", "immutable": True, "stringData": {_FIELD: key}}


def key_env(name: PoolName) -> Object:
    """The variable of a container that has it."""
    reference = {"name": name.engine_key, "key": _FIELD}
    return {"name": KEY_ENV, "valueFrom": {"secretKeyRef": reference}}


def rekeyed_sentence(name: PoolName) -> str:
    """What to do once the Secret was made anew."""
    deployments = " ".join(name.child(each) for each in (*Role, ROUTER))
    return (
        f"Secret {name.engine_key} was missing, so Tandem created it with a new key. Running pods"
        " still have the old key and cannot talk to new pods. Run"
        f" kubectl -n {name.namespace} rollout restart deployment {deployments}."
    )


def roles_with_key(world: World, name: PoolName) -> frozenset[Role]:
    """Roles whose pods are to ask for the key; one that does goes on doing so."""
    routers = [
        pod
        for pod in world.pods
        if (pod["metadata"].get("labels") or {}).get(ROLE_LABEL) == ROUTER and not has_ended(pod)
    ]
    if all(_has_key(pod) for pod in routers):
        return frozenset(Role)
    templates = {
        child["metadata"]["name"]: (child.get("spec") or {}).get("template") or {"metadata": {}}
        for child in world.children
        if child.get("kind") == "Deployment"
    }
    return frozenset(
        role for role in Role if _has_key(templates.get(name.child(role), {"metadata": {}}))
    )


def runs_with_key(pod: Object) -> bool:
    """Whether a pod that runs has a key, which it read when it started."""
    return _has_key(pod) and (pod.get("status") or {}).get("phase") == "Running"


def _has_key(pod: Object) -> bool:
    return KEY_ANNOTATION in (pod.get("metadata") or {}).get("annotations", {})
