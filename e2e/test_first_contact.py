"""A pool tells a newcomer of the first obstacles, in the platform's or the pod's own words."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster.cluster import set_accelerators
from e2e.commands import apply, kubectl, kubectl_json
from e2e.demo import setup
from e2e.pools import KIND, LABEL, Pool, wait_until

Spec = dict[str, Any]

RATIONED = "tandem-e2e-rationed"
"""A namespace whose quota admits one accelerator."""


def no_such_image(spec: Spec) -> None:
    spec["engine"]["image"] = "127.0.0.1:9/no-such-engine:none"


def no_vllm_in_the_image(spec: Spec) -> None:
    spec["engine"]["image"] = setup.built_images()["ROUTER_IMAGE"]


def no_such_model(spec: Spec) -> None:
    spec["model"]["source"] = {"image": {"path": "/models/none"}}


def too_little_memory(spec: Spec) -> None:
    for role in ("prefill", "decode"):
        spec[role]["resources"] = {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"cpu": "1", "memory": "96Mi"},
        }


def too_many_cores(spec: Spec) -> None:
    for role in ("prefill", "decode"):
        spec[role]["resources"]["requests"]["cpu"] = "1000"
        spec[role]["resources"]["limits"]["cpu"] = "1000"


def no_such_token(spec: Spec) -> None:
    hub = {"repo": "someone/some-model", "tokenSecretRef": {"name": "no-such-secret"}}
    spec["model"]["source"] = {"huggingFace": hub}


def on_gpus(spec: Spec, *, each: int) -> None:
    for role in ("prefill", "decode"):
        spec[role].pop("resources")
        spec[role]["gpusPerReplica"] = each
    spec["engine"] = {"device": "NVIDIA", "image": "127.0.0.1:9/no-such-engine:none"}


def too_many_gpus(spec: Spec) -> None:
    on_gpus(spec, each=2)


def more_gpus_than_the_quota(spec: Spec) -> None:
    on_gpus(spec, each=1)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with a pool, and words that its Ready condition has to hold."""

    make: Callable[[Spec], None]
    said: tuple[str, ...]
    rationed: bool = False

    @property
    def name(self) -> str:
        return self.make.__name__.replace("_", "-")


MISTAKES = (
    Mistake(no_such_image, ("Pull", "no-such-engine")),
    Mistake(no_vllm_in_the_image, ("spec.engine.image: it has no", "comes with vLLM")),
    Mistake(no_such_model, ("/models/none",)),
    Mistake(too_little_memory, ("memory",)),
    Mistake(too_many_cores, ("Unschedulable", "Insufficient cpu")),
    Mistake(no_such_token, ("no-such-secret", "not found")),
    Mistake(too_many_gpus, ("Unschedulable", "Insufficient nvidia.com/gpu")),
    Mistake(more_gpus_than_the_quota, ("exceeded quota", "nvidia.com/gpu"), rationed=True),
)


@pytest.fixture(scope="module")
def accelerator() -> Iterator[None]:
    """One accelerator on the node."""
    set_accelerators(1)
    yield
    set_accelerators(0)


@pytest.fixture(scope="module")
def rationed(accelerator: None) -> Iterator[str]:
    """A namespace that may have one accelerator, so not one for each role."""
    kubectl("delete", "namespace", RATIONED, "--ignore-not-found", "--wait", timeout_s=180.0)
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RATIONED}})
    apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "accelerators", "namespace": RATIONED},
            "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
        }
    )
    yield RATIONED
    kubectl("delete", "namespace", RATIONED, "--wait=false")


def somebody_knows(pool: Pool) -> bool:
    """Return whether the platform has found out that a pod cannot start, or that it is refused."""
    selector = ("-n", pool.namespace, "-l", f"{LABEL}/pool={pool.name}")
    deployments = kubectl_json("get", "deployments", *selector)["items"]
    if any(
        condition["type"] == "ReplicaFailure"
        for deployment in deployments
        for condition in deployment.get("status", {}).get("conditions", ())
    ):
        return True
    return any(is_stuck(pod["status"]) for pod in kubectl_json("get", "pods", *selector)["items"])


def is_stuck(status: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for condition in status.get("conditions", ())
    ) or any(
        "terminated" in container["lastState"]
        or "terminated" in container["state"]
        or container["state"].get("waiting", {}).get("reason", "").startswith(("Err", "Create"))
        for container in status.get("containerStatuses", ())
        if container["name"] == "engine"
    )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_named_on_the_pool_within_30_seconds_of_the_platform_noticing(
    operator, manifest, rationed, mistake
):
    broken = copy.deepcopy(manifest)
    broken["metadata"]["name"] = mistake.name
    if mistake.rationed:
        broken["metadata"]["namespace"] = rationed
    for role in ("prefill", "decode"):
        broken["spec"][role].update(minReplicas=1, maxReplicas=1)
    mistake.make(broken["spec"])
    pool = Pool(namespace=broken["metadata"]["namespace"], name=mistake.name)

    apply(broken)
    wait_until(lambda: somebody_knows(pool), within_s=120.0, what="a pod in trouble")

    def told():
        ready = pool.condition("Ready")
        said = ready.get("message", "")
        return ready if all(word in said for word in mistake.said) else None

    ready = wait_until(told, within_s=90.0, what=f"{mistake.said} on the pool's Ready condition")
    assert ready["status"] == "False"
    kubectl("delete", KIND, mistake.name, "-n", pool.namespace, "--wait=false")
