"""What to do about a pool's conditions, in a sentence for each reason."""

from tandem_operator.api import Condition, ConditionType, PoolStatus
from tandem_operator.workloads.conditions import (
    BAD_THOUGH_ACCEPTED,
    BAD_WHEN_TRUE,
    FALSE,
    FIELDS_OVERRIDDEN,
    MEMORY_REFUSED,
    TRUE,
)

PODS = "kubectl describe pods -n {namespace} -l tandem-inference.io/pool={name}"

# By condition and reason; the empty reason stands for all others.
_TO_DO: dict[ConditionType, dict[str, str]] = {
    ConditionType.READY: {
        "NotAccepted": "Mend the field that the message names; what ran before goes on.",
        "NotApplied": "See Accepted and FieldConflict: nothing of this generation was applied.",
        "Starting": "Wait for the cold start; if it takes much longer than before: " + PODS + ".",
        "": "Look at the pods' own words: " + PODS + ".",
    },
    ConditionType.ACCEPTED: {
        "InvalidSpec": "Mend the field that the message names; what ran before goes on.",
        "ChildRefused": "Mend what the API server refused: a quota, a policy or a missing right.",
        FIELDS_OVERRIDDEN: "Take the fields named out of podTemplate; Tandem sets them.",
        MEMORY_REFUSED: "Mend what refuses ConfigMap {name}-memory: a quota, a policy or a right.",
    },
    ConditionType.METRICS_FRESH: {
        "": "Check that the operator reaches the pods' metrics ports (network policies), or the"
        " Prometheus of spec.metrics; nothing shrinks until then.",
    },
    ConditionType.SCALING_ACTIVE: {
        "Paused": "Set scaling.mode: Auto to let Tandem act.",
        "Recommend": "Set scaling.mode: Auto to let Tandem act on what it recommends.",
        "External": "Set management: Managed on the role that Tandem should size.",
    },
    ConditionType.CAPACITY_BLOCKED: {
        "PodsRefused": "Raise the namespace's ResourceQuota or lower gpuBudget to what it allows.",
        "": "Add nodes with free GPUs or mend what keeps the pods from starting: " + PODS + ".",
    },
    ConditionType.SLO_FEASIBLE: {
        "": "Loosen the bound that the message names; more replicas would not help.",
    },
    ConditionType.ENGINES_HEALTHY: {
        "": "Look at the log of the pod that the message names; deleting the pod replaces it.",
    },
    ConditionType.FIELD_CONFLICT: {
        "": "Let the other owner give up the field, or set management: External on that role.",
    },
}

_BY_CAUSE = {
    "router_queue": "prefill is short of replicas: see whether it is starting, at maxReplicas or"
    " out of gpuBudget",
    "engine_queue": "prefill is short of replicas: see whether it is starting, at maxReplicas or"
    " out of gpuBudget",
    "prefill": "the prompts take longer than the bound leaves: loosen ttft.perThousandPromptTokens"
    " or give prefill faster engines",
    "transfer": "KV transfer is slow: check the network between prefill and decode pods; TCP gave"
    " an H100 2.6 GB/s, more takes RDMA (podTemplate)",
    "decode_admission": "decode has no place for new requests: see whether it is starting, at"
    " maxReplicas or out of gpuBudget",
    "decode_step": "decode steps are too slow: see whether decode is starting, at maxReplicas or"
    " out of gpuBudget",
    "error": "requests fail: look at the logs of router and engines",
}


def is_bad(condition: Condition) -> bool:
    """Whether somebody should look at it."""
    kind = ConditionType(condition.type)
    if kind is ConditionType.ACCEPTED and condition.reason in BAD_THOUGH_ACCEPTED:
        return True
    return condition.status == (TRUE if kind in BAD_WHEN_TRUE else FALSE)


def to_do(condition: Condition, status: PoolStatus, *, name: str, namespace: str) -> str | None:
    """What to do about a condition; `None` where all is well or nothing is known to help."""
    if not is_bad(condition):
        return None
    kind = ConditionType(condition.type)
    if kind is ConditionType.SLO_MET:
        return _about_misses(status)
    known = _TO_DO.get(kind, {})
    text = known.get(condition.reason, known.get(""))
    return None if text is None else text.format(name=name, namespace=namespace)


def _about_misses(status: PoolStatus) -> str | None:
    blame = (status.slo.blame if status.slo is not None else None) or {}
    known = {cause: count for cause, count in blame.items() if cause in _BY_CAUSE}
    if not known:
        return None
    cause = max(sorted(known), key=lambda each: known[each])
    share = known[cause] / sum(blame.values())
    return f"{100.0 * share:.0f}% of the misses are {cause}: {_BY_CAUSE[cause]}."
