"""The remedies for a pool's conditions: a sentence for each reason."""

from tandem_operator.api import Condition, ConditionType, PoolStatus
from tandem_operator.workloads.status.condition_now import (
    AUTOSCALER_WAITS,
    BAD_THOUGH_ACCEPTED,
    BAD_WHEN_TRUE,
    FALSE,
    FIELDS_OVERRIDDEN,
    FIELDS_UNKNOWN,
    MEMORY_REFUSED,
    NEVER_BAD,
    TRUE,
)
from tandem_operator.workloads.status.readiness import BELOW_MINIMUM, ROLLING_OUT, STARTING

PODS = "kubectl describe pods -n {namespace} -l tandem-inference.io/pool={name}"

_SEE_ACCEPTED = "See Accepted. Tandem left the running pods unchanged."
_WAIT = "Wait for the cold start. If it takes longer than usual, run " + PODS + "."
_READ_PODS = "Read the messages of the pods: run " + PODS + "."

# By condition and reason; the empty reason stands for all others.
_TO_DO: dict[ConditionType | None, dict[str, str]] = {
    ConditionType.READY: {
        **dict.fromkeys(("InvalidSpec", "ChildRefused", "OwnedByOther"), _SEE_ACCEPTED),
        **dict.fromkeys((STARTING, ROLLING_OUT, BELOW_MINIMUM), _WAIT),
        "": _READ_PODS,
    },
    ConditionType.AVAILABLE: {STARTING: _WAIT, "": _READ_PODS},
    ConditionType.STALLED: {"": _SEE_ACCEPTED},
    ConditionType.ACCEPTED: {
        "InvalidSpec": "Correct the field that the message names; running pods stay as they are.",
        "OwnedByOther": "See FieldConflict.",
        "ChildRefused": "Correct the cause of the refusal: a quota, a policy, a missing right, or a"
        " field that `tandem lint` names too.",
        FIELDS_OVERRIDDEN: "Remove these fields from podTemplate; Tandem sets them.",
        FIELDS_UNKNOWN: "Correct the names of these fields; `tandem lint` checks a manifest.",
        MEMORY_REFUSED: "Correct what refuses ConfigMap {name}-memory: a quota, policy or right.",
    },
    ConditionType.METRICS_FRESH: {
        "": "Check that the operator reaches the metrics ports of pods (NetworkPolicies), or the"
        " Prometheus of spec.metrics. Tandem scales nothing down until then.",
    },
    ConditionType.SCALING_ACTIVE: {
        "Paused": "Set scaling.mode: Auto to let Tandem act.",
        "Recommend": "Set scaling.mode: Auto to let Tandem apply its recommendations.",
        AUTOSCALER_WAITS: "Set management: External on the role, or delete the autoscaler.",
        "External": "Set management: Managed on the role that Tandem should size.",
    },
    ConditionType.CAPACITY_BLOCKED: {
        "PodsRefused": "Raise the namespace's ResourceQuota or lower gpuBudget to what it allows.",
        "": "Add nodes with free GPUs, or correct what blocks the pods: run " + PODS + ".",
    },
    ConditionType.SLO_FEASIBLE: {
        "": "Raise the bound that the message names; more replicas would not help.",
    },
    ConditionType.ENGINES_HEALTHY: {
        "": "Read the log of the pod that the message names. To replace the pod, delete it.",
    },
    ConditionType.ROUTE_ACCEPTED: {
        "NotAllowed": "Set pools.gatewayRoutes of the chart, or remove router.gateway.",
        "GatewayAPIMissing": "Install the CRDs of Gateway API 1.2 or newer.",
        "RouteInvalid": "Correct the field that the message names; `tandem lint` names it too.",
        "RouteRefused": "Correct the cause of the refusal: a field of router.gateway, a policy, or"
        " a missing right.",
        "": "Compare router.gateway with the listeners of the Gateway: allowedRoutes, hostname and"
        " sectionName. Run kubectl describe httproute -n {namespace} {name}-router.",
    },
    ConditionType.FIELD_CONFLICT: {
        "": "Remove the field from the other manager, or set management: External on that role.",
    },
}

_BY_CAUSE = {
    "router_queue": "prefill needs more replicas; check whether pods are starting, and whether"
    " maxReplicas or gpuBudget is reached",
    "engine_queue": "prefill needs more replicas; check whether pods are starting, and whether"
    " maxReplicas or gpuBudget is reached",
    "prefill": "prompts take longer than the bound allows; raise ttft.perThousandPromptTokens, or"
    " use faster prefill engines",
    "transfer": "KV transfer is slow; check the network between prefill and decode pods; TCP"
    " reached 2.6 GB/s on an H100, and more needs RDMA (podTemplate)",
    "decode_admission": "decode batches are full; check whether pods are starting, and whether"
    " maxReplicas or gpuBudget is reached",
    "decode_step": "decode steps are too slow; check whether pods are starting, and whether"
    " maxReplicas or gpuBudget is reached",
    "wake": "the pool was at zero; if requests must not wait for a start, raise"
    " scaling.scaleToZeroAfter or leave it out",
    "error": "requests fail; read the logs of the router and the engines",
}


def is_bad(condition: Condition) -> bool:
    """Return whether a person should look at it; of a type of a newer version this is not known."""
    kind = condition.kind
    if kind is None or kind in NEVER_BAD:
        return False
    if kind is ConditionType.ACCEPTED and condition.reason in BAD_THOUGH_ACCEPTED:
        return True
    if kind is ConditionType.SCALING_ACTIVE and condition.reason == AUTOSCALER_WAITS:
        return True
    return condition.status == (TRUE if kind in BAD_WHEN_TRUE else FALSE)


def to_do(condition: Condition, status: PoolStatus, *, name: str, namespace: str) -> str | None:
    """Return the remedy for a condition; `None` if all is well or no remedy is known."""
    if not is_bad(condition):
        return None
    if condition.kind is ConditionType.SLO_MET:
        return _about_misses(status)
    known = _TO_DO.get(condition.kind, {})
    text = known.get(condition.reason, known.get(""))
    return None if text is None else text.format(name=name, namespace=namespace)


def _about_misses(status: PoolStatus) -> str | None:
    blame = (status.slo.blame if status.slo is not None else None) or {}
    known = {cause: count for cause, count in blame.items() if cause in _BY_CAUSE}
    if not known:
        return None
    cause = max(sorted(known), key=lambda each: known[each])
    share = known[cause] / sum(blame.values())
    return f"{100.0 * share:.0f}% of the misses have the cause {cause}: {_BY_CAUSE[cause]}."
