"""The engines that were Ready and no longer are: one that hangs is NotReady before it is ended.

The kubelet writes no probe failure into the pod. But a container that passed its startup probe was
Ready, and the last state of an ended container stays visible.
"""

from collections.abc import Mapping
from typing import Any

from tandem_operator.core.observation import PodPhase
from tandem_operator.workloads.pod_status import condition_of, epoch_s, phase_of
from tandem_operator.workloads.pool_names import ENGINE


def lapsed_s(pod: Mapping[str, Any]) -> float | None:
    """Return since when the pod is not Ready any more, in epoch seconds.

    Returns `None` for a pod that is Ready, leaves, or never was Ready.
    """
    if phase_of(pod) is not PodPhase.STARTING:
        return None
    ready = condition_of(pod, "Ready")
    since_s = epoch_s(ready.get("lastTransitionTime"))
    # A lost node ends its pods' readiness too, which says nothing about the engines.
    if since_s is None or ready.get("reason") not in (None, "ContainersNotReady"):
        return None
    began_s = _began_s(pod)
    return since_s if began_s is not None and began_s < since_s else None


def _began_s(pod: Mapping[str, Any]) -> float | None:
    """Return when the latest engine started that may have been Ready."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container.get("name") == ENGINE:
            state, last = container.get("state") or {}, container.get("lastState") or {}
            lives = state.get("running") if container.get("started") else None
            found = lives or state.get("terminated") or last.get("terminated") or {}
            return epoch_s(found.get("startedAt"))
    return None
