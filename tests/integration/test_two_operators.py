"""A cluster-wide and a namespaced operator over one pool: one runs it, the other says so."""

import time

import pytest

from tests.integration.operator_process import Pool, eventually, install_crd, operator

pytestmark = pytest.mark.timeout(900)

SYSTEM, TEAM = "tandem-system", "team-a"
EVERYWHERE = ("--leader-elect", "--lease-namespace", SYSTEM)
ONE_NAMESPACE = (*EVERYWHERE, "--namespace", TEAM)
BOTH = {
    "the cluster-wide one first": (EVERYWHERE, ONE_NAMESPACE),
    "the namespaced one first": (ONE_NAMESPACE, EVERYWHERE),
}


@pytest.fixture
def plane(fresh_control_plane):
    """A control plane of its own: a cluster-wide operator would run the pools of other tests."""
    install_crd(fresh_control_plane)
    for name in (SYSTEM, TEAM):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        fresh_control_plane.request("POST", "/api/v1/namespaces", body)
    return fresh_control_plane


def lease_of(words):
    name = f"tandem-operator-{TEAM}" if "--namespace" in words else "tandem-operator"
    return f"{SYSTEM}/{name}"


def told_of(pool):
    return [each for each in pool.events() if each["reason"] == "OtherOperator"]


@pytest.mark.parametrize("order", BOTH)
def test_the_second_operator_leaves_the_pool_alone_and_names_the_first(plane, tmp_path, order):
    first, second = BOTH[order]
    pool = Pool(plane, TEAM)
    with operator(plane.kubeconfig, tmp_path / "one", *first) as one:
        pool.apply()
        eventually(lambda: pool.get()["status"]["observedGeneration"] == 1)
        eventually(pool.is_carried_out)
        with operator(plane.kubeconfig, tmp_path / "two", *second) as two:
            eventually(lambda: told_of(pool))
            time.sleep(12)

            assert "children applied" not in two.log()
            assert '"decision"' not in two.log()
            assert len(told_of(pool)) == 1
            assert lease_of(first) in told_of(pool)[0]["note"]
            eventually(lambda: "another operator runs the pool" in two.log())
            assert "another operator" not in one.log()
            assert pool.get()["status"]["operator"] == lease_of(first)

            one.stop()
            eventually(lambda: pool.get()["status"]["operator"] == lease_of(second))
            pool.apply(prefill={"minReplicas": 2})
            eventually(lambda: pool.replicas("prefill") == 2)
            assert len(told_of(pool)) == 1


def test_of_two_operators_that_meet_a_new_pool_together_one_runs_it(plane, tmp_path):
    pools = [Pool(plane, TEAM, name=f"tiny-{n}") for n in range(8)]
    with (
        operator(plane.kubeconfig, tmp_path / "one", *EVERYWHERE) as one,
        operator(plane.kubeconfig, tmp_path / "two", *ONE_NAMESPACE) as two,
    ):
        for process in (one, two):
            eventually(lambda process=process: "tandem_leader 1.0" in process.metrics())
        for pool in pools:
            pool.apply()
        eventually(lambda: all(told_of(pool) for pool in pools))
        runs = [pool.get()["status"]["operator"] for pool in pools]
        time.sleep(12)

        assert [pool.get()["status"]["operator"] for pool in pools] == runs
        for pool in pools:
            assert len(told_of(pool)) == 1
