"""The faults of nodes, the control plane, Prometheus and the operator, on kind."""

import contextlib
import json
import time
from dataclasses import dataclass, replace

from e2e.cluster import names, worker
from e2e.commands import CommandError, kubectl, kubectl_json
from e2e.demo import setup
from e2e.faults import held, node
from e2e.faults.evidence import Evidence, Stage
from e2e.faults.node import Undo
from e2e.faults.on_kind import COUNTS, Disturbance, Scene, disturbed, ground, kind_scenario
from e2e.faults.scenario import Family
from e2e.pools import Pool
from tandem_operator.core.role import Role

EVICTION_TRIES = 5
DRAIN_S = 180.0


def remove_prometheus(_: Scene) -> Undo:
    """Take the whole of Prometheus away."""
    kubectl("delete", "namespace", setup.PROMETHEUS_NAMESPACE, "--wait=false")

    def install_again() -> None:
        kubectl(
            *("wait", "--for=delete", f"namespace/{setup.PROMETHEUS_NAMESPACE}"),
            *("--timeout=90s",),
            timeout_s=100.0,
        )
        setup.cluster("prometheus")

    return install_again


def delete_operator(_: Scene) -> None:
    """Delete the operator's pods; their Deployment makes others."""
    kubectl("delete", "pods", "-n", setup.OPERATOR_NAMESPACE, "--all", "--wait=false")


def _freeze_api_server(_: Scene) -> Undo:
    return node.freeze(node.static_pod_process("kube-apiserver"))


def _drain_node(scene: Scene) -> Undo:
    """Cordon the only node and evict every prefill pod, again and again as a drain does."""
    kubectl("cordon", names.NODE)
    before = [face.name for face in scene.pool.pods(Role.PREFILL)]
    for _ in range(EVICTION_TRIES):
        for pod in before:
            _evict(pod, namespace=scene.namespace)
        time.sleep(2.0)
    left = [face for face in scene.pool.pods(Role.PREFILL) if face.name in before and face.ready]
    if not left:
        scene.broken.append("the drain took every prefill pod that was Ready")

    return lambda: kubectl("uncordon", names.NODE) and None


def _evict(pod: str, *, namespace: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    # A disruption budget refuses with 429, and a pod may be gone.
    with contextlib.suppress(CommandError):
        kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def _hold_terminating(scene: Scene) -> Undo:
    """Delete a decode pod that a finalizer holds."""
    pod = scene.pod_of(Role.DECODE)
    held.hold(pod, namespace=scene.namespace)
    kubectl("delete", "pod", pod, "-n", scene.namespace, "--wait=false")
    return lambda: held.let_go(pod, namespace=scene.namespace)


def _edit_in_mid_drain(scene: Scene) -> Undo:
    """Shrink decode by a pod, and while that one drains, edit the SLO and want it back."""
    scene.pool.patch({"decode": {"minReplicas": 1, "maxReplicas": 1}})
    deadline_s = time.time() + 30.0
    while time.time() < deadline_s and not _terminating(scene):
        time.sleep(0.3)
    scene.pool.patch({"slo": {"tpot": {"target": "36ms"}}})
    count = COUNTS[Role.DECODE]
    scene.pool.patch({"decode": {"minReplicas": count, "maxReplicas": count}})
    return lambda: scene.pool.patch({"slo": {"tpot": {"target": "35ms"}}}) and None


def _terminating(scene: Scene) -> bool:
    selector = f"tandem-inference.io/pool={scene.pool.name},tandem-inference.io/role=decode"
    items = kubectl_json("get", "pods", "-n", scene.namespace, "-l", selector)["items"]
    return any("deletionTimestamp" in item["metadata"] for item in items)


def _drain_both(scene: Scene) -> None:
    """Drain the node of the only prefill pod, then the one that it moved to, as a user would."""
    selector = f"tandem-inference.io/pool={scene.pool.name},tandem-inference.io/role=prefill"
    # The first node holds the control plane as well: there it is the prefill pod that goes.
    _drain(names.NODE, "--pod-selector", selector)
    if [_node_of(scene, face.name) for face in scene.pool.pods(Role.PREFILL)] != [worker.NAME]:
        scene.broken.append("the prefill pod did not move to the second node")
    kubectl("uncordon", names.NODE)
    _drain(worker.NAME)


def _drain(where: str, *words: str) -> None:
    kubectl(
        *("drain", where, "--ignore-daemonsets", "--delete-emptydir-data", *words),
        *("--timeout", f"{DRAIN_S:g}s"),
        timeout_s=DRAIN_S + 10.0,
    )


def _node_of(scene: Scene, pod: str) -> str:
    return str(kubectl_json("get", "pod", pod, "-n", scene.namespace)["spec"]["nodeName"])


@dataclass(frozen=True, slots=True)
class OnTwoNodes:
    """A disturbance of a pool with a single prefill pod, in a cluster with a second node."""

    disturbance: Disturbance

    def __call__(self, stage: Stage) -> Evidence:
        """Make the node, play, and leave the ground as it was."""
        on = ground()
        on.wait_whole()
        images = setup.built_images()
        counts = {**COUNTS, Role.PREFILL: 1}
        needed = ("LAUNCHER_IMAGE", "ENGINE_CPU_IMAGE", "ROUTER_IMAGE")
        with worker.second_node(images=[images[each] for each in needed]):
            try:
                _set_prefill(on.pool, 1)
                alone = replace(on, counts=counts)
                alone.wait_whole()
                return disturbed(alone, self.disturbance, stage)
            finally:
                kubectl("uncordon", names.NODE)
                _set_prefill(on.pool, COUNTS[Role.PREFILL])


def _set_prefill(pool: Pool, count: int) -> None:
    pool.patch({"prefill": {"minReplicas": count, "maxReplicas": count}})


METRICS = (
    kind_scenario(
        "prometheus-removed",
        Family.METRICS,
        "Prometheus is taken away; the operator reads the pods themselves.",
        Disturbance(remove_prometheus, lasts_s=30.0, load_s=45.0),
        undone="It is installed again.",
        names=r"read from the pods: Prometheus",
    ),
)
CAPACITY = (
    kind_scenario(
        "drain-against-budget",
        Family.CAPACITY,
        "The only node is cordoned, and both prefill pods are evicted again and again.",
        Disturbance(_drain_node, lasts_s=30.0, load_s=60.0),
        undone="The node is uncordoned.",
        names=r"(?i)cordon|drain|Unschedulable",
    ),
    kind_scenario(
        "only-prefill-pod-drained",
        Family.CAPACITY,
        "Of two nodes, the one with the only prefill pod is drained, then the one it moved to.",
        OnTwoNodes(Disturbance(_drain_both, load_s=150.0)),
        undone="Each time another pod is Ready before the only one leaves.",
        names=r"the node of its only Ready pod",
        recovers_s=300.0,
    ),
    kind_scenario(
        "stuck-terminating",
        Family.CAPACITY,
        "A decode pod that was deleted stays Terminating for 60 s: a finalizer holds it.",
        Disturbance(_hold_terminating, lasts_s=60.0, load_s=70.0),
        undone="The finalizer is taken away.",
    ),
)
API = (
    kind_scenario(
        "api-server-frozen",
        Family.API,
        "The API server is stopped for 45 s: connections stand, nothing answers.",
        Disturbance(_freeze_api_server, lasts_s=45.0, load_s=65.0),
        undone="It goes on.",
    ),
    kind_scenario(
        "operator-deleted",
        Family.API,
        "The operator is deleted.",
        Disturbance(delete_operator, load_s=30.0),
        undone="Its Deployment makes another.",
        quick=True,
    ),
    kind_scenario(
        "edit-in-mid-drain",
        Family.API,
        "Decode is told to shrink; while the pod drains, the SLO is edited and the pod wanted.",
        Disturbance(_edit_in_mid_drain, lasts_s=10.0, load_s=60.0),
        undone="The SLO is as before.",
    ),
)
