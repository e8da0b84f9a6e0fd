"""The kind cluster `tandem`: made, found healthy, or repaired; and removed, if it is ours."""

from __future__ import annotations

import json
import time
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from e2e.cluster import docker, kind, names, worker
from e2e.cluster.kind import KindCluster, Supply
from e2e.cluster.progress import CannotContinueError, answers, run, say, step
from e2e.cluster.store import locked
from e2e.cluster.tools import ensure_tools, kubectl

_SETTLE_S = 30.0
_RESTART_S = 90.0
_POLL_S = 0.5
_DNS = ("-l", "k8s-app=kube-dns")
_OURS = KindCluster(names.CLUSTER, names.KUBECONFIG)
# Written into the node when it is whole, so that what a killed run left is told from a slow start.
_COMPLETE = "/kind/tandem-complete"


class NodeState(StrEnum):
    """The state of the node's container."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    STOPPED = "stopped"
    RUNNING = "running"


def up() -> None:
    """End with a healthy cluster, doing only what is missing."""
    with locked("cluster"):
        docker.ensure_engine()
        tools = ensure_tools()
        _OURS.own_containers()
        worker.remove()
        if not _revive(tools):
            _create(tools)
        say(f"cluster {names.CLUSTER}: ready (KUBECONFIG={_shown(names.KUBECONFIG)})")


def down() -> None:
    """Remove the cluster, if it is ours; images and the cache stay."""
    with locked("cluster"):
        if not docker.engine_answers():
            if problem := docker.start_problem():
                say(f"docker: {problem} Nothing was removed.")
                return
            docker.ensure_engine()
        if not _OURS.own_containers():
            say(f"cluster {names.CLUSTER}: there is none")
        else:
            worker.remove()
            _delete()
        names.KUBECONFIG.unlink(missing_ok=True)


def is_running() -> bool:
    """Return whether the node of our cluster runs."""
    return node_state() is NodeState.RUNNING


def node_state() -> NodeState:
    """Tell how far the node's container got."""
    containers = _OURS.containers()
    if not containers:
        return NodeState.ABSENT
    if not containers[0]["State"]["Running"]:
        return NodeState.STOPPED
    if answers(["docker", "exec", names.NODE, "test", "-e", _COMPLETE], timeout_s=20):
        return NodeState.RUNNING
    return NodeState.UNFINISHED


def set_accelerators(count: int, *, resource: str = "nvidia.com/gpu") -> None:
    """Give the node `count` accelerators: requests, quotas and Pending are then the real thing."""
    value = str(count) if count else None
    body = {"status": {"capacity": {resource: value}, "allocatable": {resource: value}}}
    kubectl(
        *("patch", "node", names.NODE, "--subresource=status", "--type=merge"),
        *("-p", json.dumps(body)),
    )
    say(f"node: {count} x {resource}")


def images_in_use() -> set[str]:
    """Return the images that some pod of the cluster asks for."""
    asked = "{.items[*].spec.containers[*].image} {.items[*].spec.initContainers[*].image}"
    return set(kubectl("get", "pods", "--all-namespaces", "-o", f"jsonpath={asked}").split())


def apply(manifest: str) -> None:
    """Apply a manifest to the cluster."""
    kubectl("apply", "-f", "-", stdin=manifest)


def await_rollout(deployment: str, *, namespace: str) -> None:
    """Wait until a Deployment runs as it was last applied."""
    kubectl("rollout", "status", f"deployment/{deployment}", "-n", namespace, "--timeout=120s")


def kind_config(supply: Supply) -> str:
    """Return the cluster's description."""
    return kind.network_of(supply, (names.HERE / "kind.yaml").read_text())


def _revive(tools: dict[str, Path]) -> bool:
    """Bring an existing cluster to health if that is possible; a broken one is removed."""
    state = node_state()
    if state is NodeState.ABSENT:
        return False
    if state is NodeState.RUNNING and _is_healthy_within(tools, _SETTLE_S):
        return True
    if state is not NodeState.UNFINISHED:
        reason = "stopped" if state is NodeState.STOPPED else "not healthy"
        with step(f"cluster {names.CLUSTER}", f"its node is {reason}; starting it again"):
            # An engine that was killed itself may not find its way back to the container.
            started = answers(["docker", "restart", names.NODE], timeout_s=_RESTART_S)
            if started and _is_healthy_within(tools, _RESTART_S):
                return True
    else:
        say(f"cluster {names.CLUSTER}: an earlier run did not finish it")
    say(f"cluster {names.CLUSTER}: it is made again")
    _delete()
    return False


def _create(tools: dict[str, Path]) -> None:
    supply = kind.supply()
    image = kind.node_image(supply)
    with step(f"cluster {names.CLUSTER}", f"creating it from {image}"):
        _OURS.create(image=image, config=kind_config(supply))
        if not _is_healthy_within(tools, _RESTART_S):
            raise CannotContinueError(
                f"The new cluster did not become healthy; see `docker logs {names.NODE}`."
            )
        run(["docker", "exec", names.NODE, "touch", _COMPLETE])


def _delete() -> None:
    with step(f"cluster {names.CLUSTER}", "removing it"):
        _OURS.delete()


def _is_healthy_within(tools: dict[str, Path], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    exported = False
    while True:
        exported = exported or answers(
            [
                *(tools["kind"], "export", "kubeconfig", "--name", names.CLUSTER),
                *("--kubeconfig", names.KUBECONFIG),
            ],
            timeout_s=20,
        )
        if exported and _is_healthy(tools["kubectl"]):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def _is_healthy(kubectl: Path) -> bool:
    """Return whether the API is ready, the node is Ready, and CoreDNS has started on it."""
    own = (kubectl, "--kubeconfig", names.KUBECONFIG, "--request-timeout=5s")
    if not answers([*own, "get", "--raw", "/readyz"], timeout_s=10):
        return False
    try:
        nodes = json.loads(run([*own, "get", "nodes", "-o", "json"], timeout_s=10))
        pods = json.loads(
            run([*own, "get", "pods", "-n", "kube-system", *_DNS, "-o", "json"], timeout_s=10)
        )
        started = _OURS.containers()[0]["State"]["StartedAt"]
    except (CannotContinueError, IndexError):
        return False
    return is_node_ready(nodes["items"]) and has_started_since(started, pods["items"])


def is_node_ready(nodes: list[dict[str, Any]]) -> bool:
    """Return whether there are nodes and all of them are Ready."""
    conditions = [one for node in nodes for one in node["status"].get("conditions", ())]
    ready = [one["status"] for one in conditions if one["type"] == "Ready"]
    return len(ready) == len(nodes) > 0 and set(ready) == {"True"}


def has_started_since(node_started: str, pods: list[dict[str, Any]]) -> bool:
    """Return whether a running pod started after its node did.

    After a restart of the node the API shows every pod as it was before, until the kubelet has
    looked at it.
    """
    # Whole seconds: Kubernetes has no finer ones.
    since = datetime.fromisoformat(node_started).replace(microsecond=0)
    return any(
        status["ready"] and datetime.fromisoformat(status["state"]["running"]["startedAt"]) >= since
        for pod in pods
        for status in pod["status"].get("containerStatuses", ())
        if "running" in status.get("state", {})
    )


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
