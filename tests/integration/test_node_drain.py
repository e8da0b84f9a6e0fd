"""Emptying the node of a pool's only pods, on a real API server with its disruption controller."""

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(900)

COMPONENTS = ("prefill", "decode", "router")


@pytest.fixture
def serving(control_plane, namespace, tmp_path):
    """A pool with one Ready pod of each component, all on one of two nodes."""
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    with (
        node(control_plane, "node-1"),
        node(control_plane, "node-2"),
        fake_pods() as fake,
        operator(control_plane.kubeconfig, tmp_path / "log", "--namespace", namespace),
    ):
        pool.apply()
        eventually(lambda: pool.objects_of_kind("Pod") == 3)
        pool.make_pods_ready(host=fake.host)
        eventually(lambda: pool.condition("MetricsFresh")["status"] == "True")
        eventually(lambda: pool.budgets() == dict.fromkeys(COMPONENTS, 0))
        yield pool, fake.host
        pool.kubectl("uncordon", "node-1")


def test_another_pod_serves_before_the_only_one_leaves_its_node(serving):
    pool, host = serving
    only = pool.pods_on("node-1")
    assert [pool.evict(name) for name in only] == [429] * 3

    pool.kubectl("cordon", "node-1")
    eventually(lambda: [pool.replicas(each) for each in COMPONENTS] == [2, 2, 2])
    assert pool.pods_on("node-1") == only
    eventually(lambda: pool.objects_of_kind("Pod") == 6)
    assert [pool.evict(name) for name in only] == [429] * 3
    pool.make_pods_ready(host=host, node="node-2")

    eventually(lambda: [pool.replicas(each) for each in COMPONENTS] == [1, 1, 1])
    eventually(lambda: not pool.pods_on("node-1"))
    eventually(lambda: len(pool.pods_on("node-2")) == 3)
    words = "prefill 1 -> 2: the node of its only Ready pod"
    eventually(lambda: any((each.get("note") or "").startswith(words) for each in pool.events()))


def test_a_full_budget_keeps_the_pod_and_the_pool_says_so(serving):
    pool, _ = serving
    pool.apply(scaling={"gpuBudget": 2})
    eventually(lambda: pool.get()["status"]["observedGeneration"] == 2)

    pool.kubectl("cordon", "node-1")

    blocked = eventually(
        lambda: (
            pool.condition("CapacityBlocked")
            if pool.condition("CapacityBlocked").get("reason") == "DrainBlocked"
            else None
        )
    )
    assert "gpuBudget 2 has no room" in blocked["message"]
    assert (pool.replicas("prefill"), pool.replicas("decode")) == (1, 1)
    assert {pool.evict(name) for name in pool.pods_on("node-1") if "router" not in name} == {429}
