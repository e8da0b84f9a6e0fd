"""Rollouts inside the GPU budget, by the Deployment controller of a real control plane."""

import json
import time

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(420)

HOST = "127.77.0.6"
START_S = 2.0
"""No pod is Ready sooner: the operator has to see it start."""


class Kubelet:
    """Has pods Ready, and ended, one round after they began to start or to terminate."""

    def __init__(self, pool):
        self._pool = pool
        self._leaving = set()
        self.most_held = 0

    def pods(self):
        found = json.loads(self._pool.kubectl("get", "pods", "-o", "json"))["items"]
        return [
            each
            for each in found
            if each["metadata"]["labels"]["tandem-inference.io/role"] != "router"
        ]

    def round(self):
        time.sleep(START_S)
        pods = self.pods()
        self.most_held = max(self.most_held, len(pods))
        leaving = {
            each["metadata"]["name"] for each in pods if each["metadata"].get("deletionTimestamp")
        }
        for name in leaving & self._leaving:
            self._pool.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        self._leaving = leaving
        self._pool.make_pods_ready(host=HOST)

    def replaced(self):
        self.round()
        pods = self.pods()
        revisions = {each["metadata"]["labels"]["tandem-inference.io/revision"] for each in pods}
        return len(revisions) == 1 and not any(
            each["metadata"].get("deletionTimestamp") for each in pods
        )


@pytest.mark.parametrize(("decode", "budget"), [(1, 2), (2, 3), (2, 4)])
def test_an_edit_of_both_roles_is_rolled_out_within_the_budget(
    control_plane, namespace, tmp_path, decode, budget
):
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    fleets = {"decode": {"minReplicas": decode}, "scaling": {"gpuBudget": budget}}
    with (
        node(control_plane, "node-1"),
        fake_pods(HOST),
        operator(control_plane.kubeconfig, tmp_path / "log", "--namespace", namespace),
    ):
        pool.apply(**fleets)
        kubelet = Kubelet(pool)
        eventually(lambda: len(kubelet.pods()) == 1 + decode)
        pool.make_pods_ready(host=HOST)
        eventually(lambda: pool.condition("Ready").get("status") == "True")
        (before,) = {
            each["metadata"]["labels"]["tandem-inference.io/revision"] for each in kubelet.pods()
        }

        pool.apply(**fleets, engine={"blockSize": 32})
        eventually(
            lambda: (
                any(
                    each["metadata"]["labels"]["tandem-inference.io/revision"] != before
                    for each in kubelet.pods()
                )
                or kubelet.round()
            ),
            within_s=120,
        )
        eventually(kubelet.replaced, within_s=180)

        assert kubelet.most_held <= budget
        eventually(lambda: kubelet.round() or pool.replicas("decode") == decode)
        for role in ("prefill", "decode"):
            spec = pool.deployment(role)["spec"]
            assert spec["strategy"]["type"] == "RollingUpdate"
            assert "paused" not in spec
