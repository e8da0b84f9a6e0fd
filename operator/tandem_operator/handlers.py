"""kopf handlers: a watch only says which pool to look at.

kopf writes nothing here: no finalizer, no annotation, no Event. Only names from its events are
used: a pass reads its own input. A relist after a broken watch does not show which objects were
deleted meanwhile. So a decision on watched objects could depend on pods that are gone.
"""

from collections.abc import Callable
from typing import Any

import kopf

from tandem_contracts.names import POOL_LABEL
from tandem_operator.kube.client import in_cluster
from tandem_operator.kube.kinds import CONFIG_MAP, DEPLOYMENT, POD, POOL, SERVICE
from tandem_operator.loop import PoolKey

OURS = {"app.kubernetes.io/managed-by": "tandem"}
WATCHED_CHILDREN = (DEPLOYMENT, POD, SERVICE, CONFIG_MAP)

Changed = Callable[[PoolKey, bool], None]
"""Called with a pool to look at, and whether its children changed."""


def registry(changed: Changed) -> kopf.OperatorRegistry:
    """Return handlers that only name the pool to look at."""
    handlers = kopf.OperatorRegistry()
    generations: dict[str, tuple[Any, ...]] = {}

    @kopf.on.login(registry=handlers)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        if in_cluster():
            return kopf.login_with_service_account(**arguments)
        return kopf.login_with_kubeconfig(**arguments)

    @kopf.on.event(POOL.group, "v1alpha1", POOL.plural, registry=handlers)
    async def pool_changed(type: str | None, meta: kopf.Meta, **_: Any) -> None:  # noqa: A002
        # A status that we wrote ourselves is no news.
        seen = (meta.get("generation"), meta.get("deletionTimestamp"), meta.get("labels"))
        uid = str(meta["uid"])
        known = generations.pop(uid, None) == seen
        if type != "DELETED":
            generations[uid] = seen
        if type in {None, "DELETED"} or not known:
            changed(PoolKey(str(meta["namespace"]), str(meta["name"])), False)

    async def child_changed(meta: kopf.Meta, **_: Any) -> None:
        pool = meta.labels.get(POOL_LABEL)
        # The memory is written by ourselves, often.
        if pool and meta.get("name") != f"{pool}-memory":
            changed(PoolKey(str(meta["namespace"]), pool), True)

    for kind in WATCHED_CHILDREN:
        kopf.on.event(
            group=kind.group,
            version=kind.api_version.rpartition("/")[2],
            plural=kind.plural,
            labels=OURS,
            id=f"{kind.plural}_changed",
            registry=handlers,
        )(child_changed)
    return handlers
