"""A model on a volume: put there once, mounted read-only, served like any other."""

import copy
import json
import subprocess
from collections.abc import Iterator

import pytest

from e2e.cluster import names
from e2e.commands import apply, kubectl
from e2e.demo.setup import on_node
from e2e.pools import KIND, Pool, wait_until

NAME = "on-volume"
FOLDER = "/var/lib/tandem-e2e"


def put_model_on_node(image: str) -> None:
    """Copy the engine image's model to a folder of the node."""
    # The image has no command of its own, and none is run.
    made = subprocess.run(
        ["docker", "create", image, "none"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    try:
        on_node("mkdir", "-p", FOLDER)
        archive = subprocess.run(
            ["docker", "cp", f"{made}:/models/tiny", "-"],
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        subprocess.run(
            ["docker", "exec", "-i", names.NODE, "tar", "-x", "-C", FOLDER],
            input=archive,
            check=True,
            timeout=60,
        )
    finally:
        subprocess.run(["docker", "rm", made], capture_output=True, check=True, timeout=60)


@pytest.fixture
def claim(namespace: str, images: dict[str, str]) -> Iterator[str]:
    """A claim bound to a static volume that holds the model in a sub-folder."""
    put_model_on_node(images["ENGINE_CPU_IMAGE"])
    modes, size = ["ReadOnlyMany"], {"storage": "1Gi"}
    volume = f"{namespace}-{NAME}"
    kubectl("delete", "pv", volume, "--ignore-not-found", "--wait")
    apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "accessModes": modes,
                "capacity": size,
                "storageClassName": "",
                "hostPath": {"path": FOLDER, "type": "Directory"},
                "claimRef": {"namespace": namespace, "name": NAME},
            },
        }
    )
    apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {
                "accessModes": modes,
                "resources": {"requests": size},
                "storageClassName": "",
                "volumeName": volume,
            },
        }
    )
    yield NAME
    kubectl("delete", "pvc", NAME, "-n", namespace, "--wait=false")
    kubectl("delete", "pv", volume, "--wait=false")


def complete(pool: Pool) -> dict[str, object]:
    """Return a completion through the API server, which needs no port of the node."""
    path = f"/api/v1/namespaces/{pool.namespace}/services/{pool.name}-router:http/proxy"
    body = {"model": "tiny", "prompt": "One two three", "max_tokens": 4}
    answer = kubectl("create", "--raw", f"{path}/v1/completions", "-f", "-", stdin=json.dumps(body))
    return dict(json.loads(answer))


def test_a_model_on_a_static_volume_is_served_and_the_pool_leaves_within_a_minute(
    operator, manifest, claim
):
    pool = Pool(namespace=manifest["metadata"]["namespace"], name=NAME)
    wanted = copy.deepcopy(manifest)
    wanted["metadata"]["name"] = NAME
    wanted["spec"]["model"]["source"] = {
        "persistentVolumeClaim": {"claimName": claim, "path": "/tiny"}
    }
    for role in ("prefill", "decode"):
        wanted["spec"][role].update(minReplicas=1, maxReplicas=1)

    apply(wanted)
    pool.wait_ready()

    assert complete(pool)["usage"]["completion_tokens"] == 4
    assert {"Deployment", "Pod", "Service", "ConfigMap"} <= set(pool.children())
    kubectl("delete", KIND, NAME, "-n", pool.namespace)
    assert not pool.exists()
    wait_until(lambda: not pool.children(), within_s=60.0, what="the end of every child")
