"""`tandem doctor` against a real API server, from an empty cluster to one with pools on it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.cluster.controlplane import ControlPlane
from manifests.generate import NAMESPACE
from tests.integration.charts import ensure_namespace, render
from tests.integration.commands import tandem
from tests.integration.operator_process import install_crd
from tests.integration.test_top import make_pool

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1"},
    "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}},
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster that no other test has installed anything in."""
    with ControlPlane.started() as started:
        yield started


def doctor(plane: ControlPlane, *words: str, user: str = "admin") -> tuple[int, dict[str, Any]]:
    """Return the exit code, and what it found by part of the cluster and state."""
    done = tandem(plane, "doctor", "-o", "json", *words, user=user)
    found: dict[str, Any] = {}
    for each in json.loads(done.stdout)["checks"]:
        states = found.setdefault(each["topic"], {})
        states.setdefault(each["state"], []).append(each["sentence"])
    return done.returncode, found


# The tests build on each other, as an installation does.


def test_an_empty_cluster_lacks_everything(plane: ControlPlane) -> None:
    code, found = doctor(plane)

    assert code == 1
    assert found["API server"].keys() == {"ok"}
    kinds = ("InferencePool", "PoolRole")
    assert found["CRD"] == {"problem": [f"the kind {kind} is not installed" for kind in kinds]}
    assert found["operator"] == {"problem": ["there is no Deployment of an operator"]}
    assert "the cluster does not know InferencePools" in found["pools"]["unknown"][0]


def test_the_crd_that_the_api_server_keeps_is_the_one_of_this_version(plane: ControlPlane) -> None:
    install_crd(plane)

    _, found = doctor(plane)

    served = "v1alpha1 is served, with the schema of 0.1.0"
    assert found["CRD"] == {"ok": [f"InferencePool {served}", f"PoolRole {served}"]}
    assert found["pools"].keys() == {"note"}


def test_an_operator_of_the_chart_has_all_its_rights_but_no_ready_pod(plane: ControlPlane) -> None:
    ensure_namespace(plane, NAMESPACE)
    chart = yaml.safe_dump_all(render())
    plane.run_kubectl("apply", "-n", NAMESPACE, "--server-side", "-f", "-", stdin=chart)

    code, found = doctor(plane)

    assert code == 1
    assert found["operator"]["problem"] == ["tandem-system/tandem-operator has no Ready pod"]
    assert found["operator"]["ok"] == [
        "registry.example.com/tandem/operator:0.1.0 is of version 0.1.0, as this is"
    ]
    assert found["rights of the operator"] == {
        "ok": ["ServiceAccount tandem-system/tandem-operator has all of them"]
    }
    assert found["your rights"].keys() == {"ok"}


def test_a_right_that_is_taken_away_is_named(plane: ControlPlane) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tandem-operator"
    role = plane.request("GET", path)
    kept = [rule for rule in role["rules"] if "secrets" not in rule["resources"]]
    plane.request("PUT", path, {**role, "rules": kept})

    _, found = doctor(plane)

    assert found["rights of the operator"]["problem"] == [
        "ServiceAccount tandem-system/tandem-operator may not create secrets in all namespaces"
    ]


def test_gpus_of_nodes_are_held_against_what_pools_ask_for(plane: ControlPlane) -> None:
    make_pool(plane, "default", "chat")
    _, before = doctor(plane)
    plane.request("POST", "/api/v1/nodes", NODE)
    # Not a PUT: the controllers write to a new node too.
    patch = json.dumps({"status": NODE["status"]})
    plane.run_kubectl("patch", "node", "gpu-1", "--subresource=status", "--type=merge", "-p", patch)

    _, after = doctor(plane)

    assert before["GPUs"]["problem"][0].startswith("no node that takes pods has nvidia.com/gpu")
    assert after["GPUs"] == {
        "ok": ["nodes have 8 nvidia.com/gpu; pools ask for 4, and for 6 at most"]
    }
    assert "default/chat: CapacityBlocked is True: " in after["pools"]["problem"][0]


def test_doctor_names_the_parts_that_a_user_has_no_right_to_read(plane: ControlPlane) -> None:
    plane.run_kubectl(
        *("create", "rolebinding", "viewer", "-n", "default", "--clusterrole=view"),
        "--user=alice",
    )

    code, found = doctor(plane, "-n", "default", user="alice")

    assert code == 1, "the pool's condition is there to be seen"
    assert {topic for topic, states in found.items() if "unknown" in states} == {
        *("CRD", "operator", "rights of the operator", "GPUs", "RDMA")
    }
    assert "pods/portforward" in found["your rights"]["note"][0]
    assert "problem" in found["pools"]


def test_it_writes_nothing(plane: ControlPlane) -> None:
    path = "/apis/tandem-inference.io/v1alpha1/namespaces/default/inferencepools/chat"
    before = plane.request("GET", path)

    doctor(plane)

    assert plane.request("GET", path) == before
