"""The judgement of GitOps tools on an object: the rules of kstatus, in its order.

After `pkg/kstatus/status` of cli-utils, which Flux and `helm --wait` use. To ask that library for
each example would be slow; `tests/integration/test_gitops.py` holds these rules against it.
"""

from collections.abc import Mapping
from typing import Any

TERMINATING, IN_PROGRESS, FAILED, CURRENT = "Terminating", "InProgress", "Failed", "Current"
_TRUE = {"Reconciling": IN_PROGRESS, "Stalled": FAILED}


def verdict(obj: Mapping[str, Any]) -> str:
    """Return the judgement of kstatus on an object of a kind that it does not know."""
    if obj["metadata"].get("deletionTimestamp"):
        return TERMINATING
    status = obj.get("status") or {}
    generation = obj["metadata"].get("generation")
    if status.get("observedGeneration", generation) != generation:
        return IN_PROGRESS
    conditions = status.get("conditions") or ()
    for condition in conditions:
        # The first of the two in the list decides.
        if condition["type"] in _TRUE and condition["status"] == "True":
            return _TRUE[condition["type"]]
    for condition in conditions:
        if condition["type"] == "Ready":
            return CURRENT if condition["status"] == "True" else IN_PROGRESS
    return CURRENT
