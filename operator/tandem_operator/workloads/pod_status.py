"""The status of a pod: its phase, its conditions and their times."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tandem_operator.core.observation import PodPhase

_ENDED = frozenset({"Succeeded", "Failed"})


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether all its processes ended for good."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def phase_of(pod: Mapping[str, Any]) -> PodPhase:
    """Return the phase of the pod between its creation and its end."""
    if pod["metadata"].get("deletionTimestamp"):
        return PodPhase.TERMINATING
    if condition_of(pod, "Ready").get("status") == "True":
        return PodPhase.READY
    if not (pod.get("spec") or {}).get("nodeName"):
        return PodPhase.UNSCHEDULED
    return PodPhase.STARTING


def condition_of(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return one of its conditions; empty if it has none of that kind."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Mapping[str, Any] = condition
            return found
    return {}


def gates_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the scheduling gates that hold the pod; none once it has a node or must end."""
    gates = (pod.get("spec") or {}).get("schedulingGates")
    if not gates or phase_of(pod) is not PodPhase.UNSCHEDULED:
        return ()
    return tuple(str(gate.get("name")) for gate in gates)


def scheduled_s(pod: Mapping[str, Any]) -> float | None:
    """Return when the pod got its node; `None` while it has none, or the time is not known."""
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") != "True":
        return None
    return epoch_s(scheduled.get("lastTransitionTime"))


def epoch_s(timestamp: Any) -> float | None:
    """Return the epoch seconds of an RFC 3339 time; `None` for any other text."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (TypeError, ValueError):
        return None
