"""Engines that are lost, hang, or are replaced, on kind with real vLLM."""

from collections.abc import Callable

from e2e.commands import kubectl
from e2e.faults import node
from e2e.faults.node import Undo
from e2e.faults.on_kind import COUNTS, Disturbance, Scene, kind_scenario
from e2e.faults.scenario import Family, Loss
from e2e.pools import NotInTimeError, wait_until
from tandem_operator.core.role import Role

SICK_DECODE = r"EnginesHealthy=False: .*decode pod"
BLOCK_SIZES = (128, 64)


def delete_pod(role: str) -> Callable[[Scene], None]:
    """Delete some pod of a role as a user would."""

    def begin(scene: Scene) -> None:
        pod = scene.pod_of(role)
        kubectl("delete", "pod", pod, "-n", scene.namespace, "--wait=false")

    return begin


def kill_core(scene: Scene) -> None:
    """SIGKILL the computing process of a decode pod; its HTTP server notices and ends."""
    node.kill(node.engine_core(scene.pod_of(Role.DECODE), namespace=scene.namespace))


def stop_core(role: Role) -> Callable[[Scene], Undo]:
    """Stop the computing process of a pod of a role; its HTTP server still answers probes."""

    def begin(scene: Scene) -> Undo:
        return node.freeze(node.engine_core(scene.pod_of(role), namespace=scene.namespace))

    return begin


def _new_revision(scene: Scene) -> Undo:
    """Edit the shape of the KV: pods of before and after may not exchange it."""
    before = scene.pool.read()["spec"]["engine"]["blockSize"]
    scene.pool.patch({"engine": {"blockSize": next(s for s in BLOCK_SIZES if s != before)}})

    def wait_replaced() -> None:
        try:
            wait_until(lambda: _one_revision(scene), within_s=300.0, what="all pods replaced")
        except NotInTimeError as error:
            scene.broken.append(str(error))

    return wait_replaced


def _one_revision(scene: Scene) -> bool:
    found = kubectl(
        *("get", "pods", "-n", scene.namespace, "-l", "tandem-inference.io/revision"),
        *("-o", "jsonpath={.items[*].metadata.labels.tandem-inference\\.io/revision}"),
    )
    return len(set(found.split())) == 1 and scene.pool.is_whole(counts=COUNTS)


def replace_decode_fleet(scene: Scene) -> None:
    """Delete all decode pods at once: KV at prefill pods waits for new ones."""
    pods = [face.name for face in scene.pool.pods(Role.DECODE)]
    kubectl(
        *("delete", "pods", *pods, "-n", scene.namespace),
        *("--wait=false", "--grace-period=1"),
    )


def _core_stopped(role: Role, seconds: int, *, quick: bool = False) -> Disturbance:
    load_s = seconds + (20.0 if quick else 35.0)
    return Disturbance(stop_core(role), lasts_s=seconds, load_s=load_s, limit_s=150.0)


ENGINES = (
    kind_scenario(
        "prefill-deleted",
        Family.ENGINES,
        "A prefill pod is deleted.",
        Disturbance(delete_pod(Role.PREFILL), load_s=30.0),
        undone="Its Deployment makes another.",
        quick=True,
    ),
    kind_scenario(
        "decode-deleted",
        Family.ENGINES,
        "A decode pod is deleted.",
        Disturbance(delete_pod(Role.DECODE), load_s=30.0),
        undone="Its Deployment makes another.",
        quick=True,
    ),
    kind_scenario(
        "decode-killed",
        Family.ENGINES,
        "The engine core of a decode pod is ended with SIGKILL.",
        Disturbance(kill_core, blind_s=2.0),
        undone="The kubelet starts the container again.",
        may_lose=Loss.BEGUN,
        names=SICK_DECODE,
    ),
    *(
        kind_scenario(
            f"decode-core-stopped-{seconds}",
            Family.ENGINES,
            f"The engine core of a decode pod is stopped for {seconds} s; its HTTP server lives.",
            _core_stopped(Role.DECODE, seconds, quick=seconds == 20),
            undone="It goes on, unless it was replaced.",
            may_lose=Loss.BEGUN,
            names=SICK_DECODE if seconds > 20 else None,
            quick=seconds == 20,
        )
        for seconds in (20, 40, 85)
    ),
    kind_scenario(
        "prefill-core-stopped-40",
        Family.ENGINES,
        "The engine core of a prefill pod is stopped for 40 s; its HTTP server lives.",
        _core_stopped(Role.PREFILL, 40),
        undone="It goes on, unless it was replaced.",
        names=r"EnginesHealthy=False: .*prefill pod",
    ),
    kind_scenario(
        "new-kv-revision",
        Family.ENGINES,
        "An edit rolls out both roles with a KV layout that does not fit the old one.",
        Disturbance(_new_revision, load_s=120.0, within_s=400.0),
        undone="The rollout ends.",
        recovers_s=400.0,
    ),
)
