"""Two real operators and one Lease: one acts, the other takes over, a loser ends."""

import json
import signal
import time

import pytest

from tests.integration.operator_process import Pool, eventually, install_crd, operator

pytestmark = pytest.mark.timeout(300)

ELECT = ("--leader-elect", "--lease-namespace", "default")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/tandem-operator"
EXIT_LEASE_LOST = 3


def holder(plane):
    return plane.request("GET", LEASE)["spec"].get("holderIdentity")


def leads(process):
    return "tandem_leader 1.0" in process.metrics()


@pytest.fixture
def plane(fresh_control_plane):
    install_crd(fresh_control_plane)
    return fresh_control_plane


def test_the_standby_takes_over_at_once_when_the_leader_is_asked_to_stop(plane, tmp_path):
    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        with operator(plane.kubeconfig, tmp_path / "two", *ELECT) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            first = holder(plane)
            assert not leads(two)

            assert one.stop(signal.SIGTERM) == 0

            eventually(lambda: leads(two), within_s=10)
            assert holder(plane) not in {first, ""}
            assert plane.request("GET", LEASE)["spec"]["leaseTransitions"] >= 2


def test_the_standby_takes_over_from_a_leader_that_was_killed_and_goes_on(plane, tmp_path):
    pool = Pool(plane, "default")
    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        pool.apply()
        eventually(lambda: pool.replicas("prefill") == 1)
        with operator(plane.kubeconfig, tmp_path / "two", *ELECT) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            one.stop(signal.SIGKILL)
            pool.apply(prefill={"minReplicas": 2})

            eventually(lambda: pool.replicas("prefill") == 2, within_s=60)
            assert leads(two)


def test_a_leader_whose_lease_was_taken_ends_at_once(plane, tmp_path):
    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        lease = plane.request("GET", LEASE)
        lease["spec"]["holderIdentity"] = "somebody-else"
        plane.run_kubectl("replace", "--force", "-f", "-", stdin=json.dumps(lease))

        assert one.process.wait(timeout=30) == EXIT_LEASE_LOST
        assert "somebody-else" in one.log()


@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_a_leader_that_cannot_renew_ends_before_a_standby_may_act(plane, tmp_path, fault):
    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        started_s = time.monotonic()
        if fault == "frozen":
            with plane.api_server_frozen():
                code = one.process.wait(timeout=30)
        else:
            plane.kill_api_server()
            code = one.process.wait(timeout=30)
            plane.start_api_server()

        assert code == EXIT_LEASE_LOST
        assert time.monotonic() - started_s < 30
        assert "No renewal" in one.log()


def test_a_standby_outlives_an_outage_and_still_takes_over(plane, tmp_path):
    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        with operator(plane.kubeconfig, tmp_path / "two", *ELECT) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            plane.kill_api_server()
            assert one.process.wait(timeout=30) == EXIT_LEASE_LOST
            assert two.probe("/healthz") == 200
            plane.start_api_server()

            eventually(lambda: leads(two), within_s=60)


def test_an_empty_lease_of_a_chart_can_be_taken(plane, tmp_path):
    empty = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "tandem-operator", "namespace": "default"},
    }
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(empty))

    with operator(plane.kubeconfig, tmp_path / "one", *ELECT) as one:
        eventually(lambda: leads(one))
        renewed = plane.request("GET", LEASE)["spec"]["renewTime"]
        drift_s = time.time() - time.mktime(time.strptime(renewed[:19], "%Y-%m-%dT%H:%M:%S"))
        assert abs(drift_s + time.timezone) < 30
