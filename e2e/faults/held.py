"""Pods that stay Terminating, since something does not let go of them."""

import json

from e2e.commands import kubectl, kubectl_json

FINALIZER = "faults.example.com/held"


def hold(pod: str, *, namespace: str) -> None:
    """Have a pod stay when it is deleted."""
    _set_finalizers(pod, [FINALIZER], namespace=namespace)


def let_go(pod: str, *, namespace: str) -> None:
    """Let the pod leave."""
    _set_finalizers(pod, [], namespace=namespace)


def let_go_of_all(*, namespace: str) -> None:
    """Free the pods that a killed run left: with them its namespace cannot be deleted."""
    for item in kubectl_json("get", "pods", "-n", namespace)["items"]:
        if FINALIZER in item["metadata"].get("finalizers", ()):
            let_go(item["metadata"]["name"], namespace=namespace)


def _set_finalizers(pod: str, finalizers: list[str], *, namespace: str) -> None:
    body = json.dumps({"metadata": {"finalizers": finalizers}})
    kubectl("patch", "pod", pod, "-n", namespace, "--type=merge", "-p", body)
