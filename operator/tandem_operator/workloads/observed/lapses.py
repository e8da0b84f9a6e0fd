"""Which engines were Ready and are not any more: one that hangs is NotReady before it is ended.

The kubelet writes no reason of a probe into the pod, but a container that had passed its startup
probe was Ready, and what an ended one said is kept.
"""

from collections.abc import Mapping
from typing import Any

from tandem_operator.core.observation import PodPhase
from tandem_operator.workloads.pod_status import condition_of, epoch_s, phase_of
from tandem_operator.workloads.pool_names import ENGINE


def lapsed_s(pod: Mapping[str, Any]) -> float | None:
    """Since when, in epoch seconds; `None` for a pod that is Ready, leaves, or never was Ready."""
    if phase_of(pod) is not PodPhase.STARTING:
        return None
    ready = condition_of(pod, "Ready")
    since_s = epoch_s(ready.get("lastTransitionTime"))
    # A node that is lost takes its pods' readiness too, which says nothing of the engines.
    if since_s is None or ready.get("reason") not in (None, "ContainersNotReady"):
        return None
    began_s = _began_s(pod)
    return since_s if began_s is not None and began_s < since_s else None


def _began_s(pod: Mapping[str, Any]) -> float | None:
    """When the latest engine began that may have been Ready."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == ENGINE:
            state, last = container.get("state") or {}, container.get("lastState") or {}
            lives = state.get("running") if container.get("started") else None
            found = lives or state.get("terminated") or last.get("terminated") or {}
            return epoch_s(found.get("startedAt"))
    return None
