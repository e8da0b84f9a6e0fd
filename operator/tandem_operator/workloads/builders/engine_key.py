"""The pool's key: engines require it, and routers send it. Decides which pods get it when. Pure.

A router with a key can serve engines without one. A router without a key cannot serve an engine
that requires it. So if pods already run, routers get the key first. Engines get it once every
router has it.
"""

from tandem_contracts.names import KEY_ANNOTATION, KEY_ENV, ROLE_LABEL
from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pod_status import has_ended
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import Object, World

_FIELD = "key"


def key_secret(name: PoolName, key: str) -> Object:
    """Return the Secret with the key; it never changes."""
    head = name.head(api_version="v1", kind="Secret", child=name.engine_key, labels=labels_of(name))
    return head | {"type": "Opaque", "immutable": True, "stringData": {_FIELD: key}}


def key_env(name: PoolName) -> Object:
    """Return the container's variable with the key."""
    reference = {"name": name.engine_key, "key": _FIELD}
    return {"name": KEY_ENV, "valueFrom": {"secretKeyRef": reference}}


def rekeyed_sentence(name: PoolName) -> str:
    """Return the remedy after the Secret was created again."""
    deployments = " ".join(name.child(each) for each in (*Role, ROUTER))
    return (
        f"Secret {name.engine_key} was missing, so Tandem created it with a new key. Running pods"
        " still have the old key and cannot talk to new pods. Run"
        f" kubectl -n {name.namespace} rollout restart deployment {deployments}."
    )


def roles_with_key(world: World, name: PoolName) -> frozenset[Role]:
    """Return the roles whose pods should require the key; a role that requires it continues to."""
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
    """Return whether a running pod has a key: it read the key when it started."""
    return _has_key(pod) and (pod.get("status") or {}).get("phase") == "Running"


def _has_key(pod: Object) -> bool:
    return KEY_ANNOTATION in (pod.get("metadata") or {}).get("annotations", {})
