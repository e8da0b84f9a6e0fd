"""Engine pods that wait for devices: claimed ones, and those that a queue has yet to let go."""

import contextlib
import json
import subprocess

import pytest

from e2e.cluster.binaries import scheduler_binary
from tests.integration.fake_pods import fake_pods
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(900)

NAMESPACE = "devices"
DRIVER = "gpu.example.com"
GATE = "kueue.x-k8s.io/admission"
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def device_objects(count):
    """Return the objects of a driver of devices, and those of its user, for one device a pod."""
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
    in_class = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}
    on_node = {
        "driver": DRIVER,
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{index}"} for index in range(count)],
    }
    return {
        kind: {
            "apiVersion": "resource.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        for kind, name, spec in (
            ("DeviceClass", DRIVER, in_class),
            ("ResourceClaimTemplate", "one-gpu", {"spec": claim}),
            ("ResourceSlice", "node-1", on_node),
        )
    }


@contextlib.contextmanager
def scheduler(plane, log_path):
    """Run the real kube-scheduler."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [
                scheduler_binary(),
                f"--kubeconfig={plane.kubeconfig}",
                f"--authentication-kubeconfig={plane.kubeconfig}",
                f"--authorization-kubeconfig={plane.kubeconfig}",
                "--leader-elect=false",
                "--secure-port=0",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def give_room(plane):
    """Show what the node has besides devices."""
    room = {"cpu": "16", "memory": "64Gi", "pods": "20"}
    patch = json.dumps({"status": {"capacity": room, "allocatable": room}})
    plane.run_kubectl(
        "patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", patch
    )


def engines(pool):
    found = json.loads(pool.kubectl("get", "pods", "-o", "json"))["items"]
    return [
        each for each in found if each["metadata"]["labels"]["tandem-inference.io/role"] != "router"
    ]


def blocked(pool):
    found = pool.condition("CapacityBlocked")
    return found.get("message", "") if found.get("status") == "True" else ""


def test_claimed_devices_are_told_of_from_a_missing_template_to_a_node(
    fresh_control_plane, tmp_path
):
    plane = fresh_control_plane
    head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.request("POST", "/api/v1/namespaces", head)
    install_crd(plane)
    pool, objects = Pool(plane, NAMESPACE), device_objects(2)
    accelerator = {"resourceClaimTemplateName": "one-gpu"}
    with (
        node(plane),
        scheduler(plane, tmp_path / "scheduler.log"),
        operator(plane.kubeconfig, tmp_path / "log", "--namespace", NAMESPACE),
    ):
        give_room(plane)
        pool.apply(
            engine={"device": "NVIDIA", "dtype": "auto", "accelerator": accelerator},
            prefill={"gpusPerReplica": 1},
            decode={"gpusPerReplica": 1},
        )
        eventually(lambda: len(engines(pool)) == 2)
        eventually(lambda: "ResourceClaimTemplate one-gpu" in blocked(pool))
        assert pool.condition("Ready")["reason"] == "ResourceClaimMissing"

        for kind in ("DeviceClass", "ResourceClaimTemplate"):
            pool.kubectl("apply", "-f", "-", stdin=json.dumps(objects[kind]))
        eventually(lambda: "cannot allocate all claims" in blocked(pool), within_s=300)

        pool.kubectl("apply", "-f", "-", stdin=json.dumps(objects["ResourceSlice"]))
        eventually(lambda: all(each["spec"].get("nodeName") for each in engines(pool)))
        eventually(lambda: pool.condition("CapacityBlocked")["status"] == "False")
        claims = json.loads(pool.kubectl("get", "resourceclaims", "-o", "json"))["items"]
        assert len(claims) == 2
        assert all(each["status"]["allocation"] for each in claims)


def test_pods_that_a_queue_holds_are_pending_and_named_with_its_gate(
    control_plane, namespace, tmp_path
):
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    template = {"metadata": {"labels": QUEUE}, "spec": {"schedulingGates": [{"name": GATE}]}}
    with (
        node(control_plane, "node-1"),
        fake_pods() as fake,
        operator(control_plane.kubeconfig, tmp_path / "log", "--namespace", namespace),
    ):
        pool.apply(decode={"minReplicas": 2, "podTemplate": template})
        eventually(lambda: len(engines(pool)) == 3)

        sentence = f"2 decode pods are held by scheduling gate {GATE}"
        eventually(lambda: sentence in blocked(pool))
        assert pool.get()["status"]["decode"]["pending"] == 2
        held = [each for each in engines(pool) if each["spec"].get("schedulingGates")]
        assert len(held) == 2
        assert all(QUEUE.items() <= each["metadata"]["labels"].items() for each in held)

        # As Kueue does once its queue has room.
        for each in held:
            name, patch = (
                each["metadata"]["name"],
                '[{"op":"remove","path":"/spec/schedulingGates"}]',
            )
            pool.kubectl("patch", "pod", name, "--type=json", "-p", patch)
        pool.make_pods_ready(host=fake.host)
        eventually(lambda: pool.condition("Ready").get("status") == "True")
        assert pool.condition("CapacityBlocked")["status"] == "False"
