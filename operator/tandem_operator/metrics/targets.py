"""Which pods of a pool should have metrics now, from what the API server shows. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_operator.core.role import Role
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tandem_operator.workloads.labels import ROLE_LABEL
from tandem_operator.workloads.names import ROUTER


def targets_of(pods: Iterable[Mapping[str, Any]], *, namespace: str, pool: str) -> Targets:
    """Ready engine and router pods with an address."""
    engines, routers = [], []
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        host = status.get("podIP")
        if not host or "deletionTimestamp" in metadata or not is_ready(pod):
            continue
        role = (metadata.get("labels") or {}).get(ROLE_LABEL)
        if role == ROUTER:
            routers.append(RouterTarget(pod=metadata["name"], host=host))
        elif role in {each.value for each in Role}:
            engines.append(EngineTarget(pod=metadata["name"], role=Role(role), host=host))
    return Targets(namespace=namespace, pool=pool, engines=tuple(engines), routers=tuple(routers))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
