"""Rollouts inside the GPU budget, by the Deployment controller of a real control plane."""

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.kubelet import Kubelet
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(900)

BLOCKS = {"blockSize": 32}
DEVICE = {"device": "NVIDIA", "dtype": "auto"}


@pytest.mark.parametrize(
    ("fleet", "engine"),
    [((1, 2), BLOCKS), ((2, 3), BLOCKS), ((2, 4), BLOCKS), ((2, 3), DEVICE)],
    ids=["1 of 2", "2 of 3", "2 of 4", "another device"],
)
def test_an_edit_of_both_roles_is_rolled_out_within_the_budget(
    control_plane, namespace, tmp_path, fleet, engine
):
    decode, budget = fleet
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    fleets = {"decode": {"minReplicas": decode}, "scaling": {"gpuBudget": budget}}
    with (
        node(control_plane, "node-1"),
        fake_pods() as fake,
        operator(control_plane.kubeconfig, tmp_path / "log", "--namespace", namespace),
    ):
        pool.apply(**fleets)
        kubelet = Kubelet(pool, host=fake.host)
        eventually(lambda: len(kubelet.pods()) == 1 + decode)
        pool.make_pods_ready(host=fake.host)
        eventually(lambda: pool.condition("Ready").get("status") == "True")
        (before,) = {
            each["metadata"]["labels"]["tandem-inference.io/revision"] for each in kubelet.pods()
        }

        pool.apply(**fleets, engine=engine)
        eventually(
            lambda: (
                any(
                    each["metadata"]["labels"]["tandem-inference.io/revision"] != before
                    for each in kubelet.pods()
                )
                or kubelet.round()
            ),
            within_s=240,
        )
        eventually(kubelet.replaced, within_s=300)

        assert kubelet.most_held <= budget
        eventually(lambda: kubelet.round() or pool.replicas("decode") == decode)
        for role in ("prefill", "decode"):
            spec = pool.deployment(role)["spec"]
            assert spec["strategy"]["type"] == "RollingUpdate"
            assert "paused" not in spec
