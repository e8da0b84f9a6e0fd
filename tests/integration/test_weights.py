"""Pods whose weights or cache Kubernetes has to allow, on an API server that has image volumes."""

import json

import pytest

from e2e.cluster.controlplane import ControlPlane
from tests.integration.operator_process import Pool, eventually, install_crd, operator

pytestmark = pytest.mark.timeout(900)

FOLDER = "/var/lib/tandem-cache"


@pytest.fixture(scope="module")
def plane():
    with ControlPlane.started(gates="ImageVolume=true") as made:
        install_crd(made)
        yield made


@pytest.fixture(scope="module", autouse=True)
def running(plane, tmp_path_factory):
    log = tmp_path_factory.mktemp("operator") / "log"
    with operator(plane.kubeconfig, log, f"--cache-host-path={FOLDER}") as process:
        eventually(lambda: process.probe("/readyz") == 200)
        yield process


def pool_in(plane, level):
    """Return a pool in a namespace of a Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    head = {"name": f"level-{level}", "labels": labels}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": head}
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
    return Pool(plane, head["name"])


def pods(pool):
    return pool.plane.request("GET", f"/api/v1/namespaces/{pool.namespace}/pods")["items"]


def test_pods_with_weights_in_an_image_are_made_in_a_restricted_namespace(plane):
    pool = pool_in(plane, "restricted")
    pool.apply()
    eventually(lambda: pool.condition("Accepted")["status"] == "True")
    pool.replace_source({"uri": "oci://ghcr.io/acme/llama:8b"})

    def mounted():
        return [
            each
            for each in pods(pool)
            if any("image" in volume for volume in each["spec"]["volumes"])
        ]

    pod = eventually(mounted)[0]
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "model"]
    assert volume["image"]["reference"] == "ghcr.io/acme/llama:8b"
    assert pool.condition("Accepted")["status"] == "True"


@pytest.mark.parametrize("level", ["baseline", "privileged"])
def test_a_folder_of_the_node_needs_a_namespace_that_lets_pods_have_it(plane, level):
    pool = pool_in(plane, level)
    pool.apply(model={"cache": {"hostPath": {"path": FOLDER}}})

    if level == "privileged":
        eventually(lambda: any("hostPath" in str(each["spec"]["volumes"]) for each in pods(pool)))
    else:
        needed = "label it pod-security.kubernetes.io/enforce=privileged"
        eventually(lambda: needed in pool.condition("Ready")["message"])
