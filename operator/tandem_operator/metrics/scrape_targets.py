"""The pods of a pool that should have metrics now, from the state in the API server. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tandem_contracts.names import ROLE_LABEL
from tandem_operator.core.observation import PodPhase
from tandem_operator.core.role import Role
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tandem_operator.workloads.pod_status import condition_of, epoch_s, has_ended, phase_of
from tandem_operator.workloads.pool_names import ROUTER

KILL_TAKES_S = 10.0
"""Time after the end of its grace period for which a pod's process may still exist."""


def targets_of(
    pods: Iterable[Mapping[str, Any]], *, namespace: str, pool: str, now_s: float
) -> Targets:
    """Return Ready engine pods, and router pods that may have clients, with an address."""
    engines, routers = [], []
    for pod in pods:
        name, host = pod["metadata"]["name"], (pod.get("status") or {}).get("podIP")
        role = (pod["metadata"].get("labels") or {}).get(ROLE_LABEL)
        if not host:
            continue
        if role == ROUTER and _may_have_clients(pod, now_s):
            routers.append(_router(pod, host=host))
        elif role in {each.value for each in Role} and phase_of(pod) is PodPhase.READY:
            engines.append(EngineTarget(pod=name, role=Role(role), host=host))
    return Targets(namespace=namespace, pool=pool, engines=tuple(engines), routers=tuple(routers))


def _router(pod: Mapping[str, Any], *, host: str) -> RouterTarget:
    name, ending_s = pod["metadata"]["name"], _asked_to_end_s(pod)
    changed_s = epoch_s(condition_of(pod, "Ready").get("lastTransitionTime"))
    if phase_of(pod) is PodPhase.READY:
        return RouterTarget(pod=name, host=host, opened_s=changed_s)
    return RouterTarget(pod=name, host=host, closed_s=changed_s if ending_s is None else ending_s)


def _asked_to_end_s(pod: Mapping[str, Any]) -> float | None:
    """Return when its deletion was requested; `None` if it was not."""
    killed_s = epoch_s(pod["metadata"].get("deletionTimestamp"))
    if killed_s is None:
        return None
    return killed_s - float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def _may_have_clients(pod: Mapping[str, Any], now_s: float) -> bool:
    """Return whether the router's process runs and was Ready in its life.

    A router that stopped being Ready, or drains, keeps its connections. A router that was never
    Ready has none, and must not be awaited: it may never start.
    """
    killed_s = epoch_s(pod["metadata"].get("deletionTimestamp"))
    if has_ended(pod) or (killed_s is not None and now_s > killed_s + KILL_TAKES_S):
        return False
    ready = condition_of(pod, "Ready")
    if ready.get("status") == "True":
        return True
    # A new process inherits the condition of the last one: only a later change is its own.
    since_s, changed_s = _running_since_s(pod), epoch_s(ready.get("lastTransitionTime"))
    return since_s is not None and changed_s is not None and changed_s > since_s


def _running_since_s(pod: Mapping[str, Any]) -> float | None:
    """Return when the router's process started; `None` while none runs."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == ROUTER:
            running = (container.get("state") or {}).get("running") or {}
            return epoch_s(running.get("startedAt"))
    return None
