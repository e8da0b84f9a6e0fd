"""The reasons why a pod does not start or a Deployment gets no pods, in original words.

The words are those of Kubernetes and of the engine; nothing here invents a cause. A token that a
failing engine printed is masked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tandem_operator.workloads.pod_status import condition_of, gates_of
from tandem_operator.workloads.pool_names import ENGINE, ROUTER

CRASHING = "Crashing"
"""A container that crashes and is started again and again, running or waiting at the moment.

`CrashLoopBackOff` is the kubelet's word for the wait alone. With it, the reason of the pool's
condition would change at each wait and each try.
"""
GATED = "SchedulingGated"
"""A gate of Kueue or others, which admit the pod later; the scheduler ignores it until then."""
_CRASH_WAIT = "CrashLoopBackOff"
_STUCK_WAITING = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        _CRASH_WAIT,
    }
)
_STATUSES = ("initContainerStatuses", "containerStatuses")
_TOKEN = re.compile(r"\b(hf_|sk-)[A-Za-z0-9_-]{8,}")
_OF_POD_SECURITY = re.compile(r'violates PodSecurity(?=.*hostPath)(?=.*"cache")')
_FOR_HOST_PATH = (
    "model.cache.hostPath needs a namespace of Pod Security level privileged; label it"
    " pod-security.kubernetes.io/enforce=privileged, or use persistentVolumeClaim or size"
)
_LONGEST = 500


def pod_trouble(pod: Mapping[str, Any]) -> str | None:
    """Return `REASON: message` of the pod's obstacle to Ready; `None` while it merely starts."""
    return next(_pod_troubles(pod), None)


def deployment_trouble(deployment: Mapping[str, Any]) -> str | None:
    """Return why the Deployment's pods are not created: a quota, a policy, a missing account."""
    for condition in _status(deployment).get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            if _OF_POD_SECURITY.search(message):
                message = f"{_FOR_HOST_PATH}: {message}"
            return _worded(condition.get("reason"), message)
    return None


def _pod_troubles(pod: Mapping[str, Any]) -> Iterator[str]:
    status, node = _status(pod), (pod.get("spec") or {}).get("nodeName")
    if node and not any(status.get(name) for name in ("conditions", "startTime", *_STATUSES)):
        # A scheduler leaves a condition, and a node its first report. Here both are missing, so
        # neither has seen this pod.
        yield _worded(
            "NodeMissing",
            f"node {node} does not run the pod; set podTemplate.spec.nodeName to an existing"
            " node, or leave it out",
        )
    gates = gates_of(pod)
    if gates:
        several = len(gates) > 1
        held = f"scheduling gate{'s' * several} {' and '.join(gates)} hold{'s' * (not several)}"
        yield _worded(GATED, f"{held} the pod")
    elif not node:
        yield from _claims_not_made(pod)
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") != GATED:
        yield _worded(scheduled.get("reason"), scheduled.get("message"))
    for statuses in _STATUSES:
        for container in status.get(statuses) or ():
            yield from _container_troubles(container)


def _claims_not_made(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield claims that Kubernetes has not made yet; only an Event shows them."""
    made = {each.get("name") for each in _status(pod).get("resourceClaimStatuses") or ()}
    for claim in (pod.get("spec") or {}).get("resourceClaims") or ():
        template = claim.get("resourceClaimTemplateName")
        if template and claim.get("name") not in made:
            yield _worded(
                "ResourceClaimMissing",
                f"no ResourceClaim was made from ResourceClaimTemplate {template} yet; create this"
                " template in the namespace, or make room in the ResourceQuota of its device class",
            )


def _container_troubles(container: Mapping[str, Any]) -> Iterator[str]:
    if container.get("ready"):
        return
    state, last = container.get("state") or {}, container.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated") or {}
    failed = bool(ended) and ended.get("exitCode") != 0
    if failed and waiting.get("reason") in (None, _CRASH_WAIT):
        # A container that crashed and was started again is in trouble until it is Ready.
        yield _crash(container, ended, looping=bool(waiting or container.get("restartCount")))
    elif waiting.get("reason") in _STUCK_WAITING:
        yield _worded(waiting.get("reason"), waiting.get("message"))


def _crash(container: Mapping[str, Any], ended: Mapping[str, Any], *, looping: bool) -> str:
    said = _last_line(ended.get("message"))
    if ended.get("reason") == "OOMKilled":
        return _worded("OOMKilled", said or _too_much(container.get("name")))
    reason = CRASHING if looping else ended.get("reason") or "Error"
    code = f"exit code {ended.get('exitCode')}"
    return _worded(reason, f"{container.get('name')}: {said} ({code})" if said else code)


def _too_much(container: Any) -> str:
    if container in (ENGINE, ROUTER):
        return "the container exceeded its memory limit; raise resources.limits.memory"
    return (
        f"the container {container} exceeded its memory limit; raise resources.limits.memory of"
        " this container in podTemplate"
    )


def _last_line(message: Any) -> str:
    lines = [line.strip() for line in str(message or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _worded(reason: Any, message: Any) -> str:
    text = _TOKEN.sub(r"\1***", " ".join(str(message or "").split()))
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rstrip() + "..."
    return f"{reason or 'Unknown'}: {text}" if text else str(reason or "Unknown")


def _status(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body.get("status") or {}
