"""Two real operators and one Lease: one acts, the other takes over, a loser ends."""

import json
import re
import signal
import time

import pytest

from tests.integration.operator_process import Pool, eventually, install_crd, operator

pytestmark = pytest.mark.timeout(900)

EXIT_LEASE_LOST = 3


def elect(namespace):
    """Return the options of an operator with a Lease in the only namespace that it serves."""
    return ("--leader-elect", "--lease-namespace", namespace, "--namespace", namespace)


def lease_in(plane, namespace):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return plane.request("GET", f"{leases}/tandem-operator-{namespace}")


def leads(process):
    return "tandem_leader 1.0" in process.metrics()


@pytest.fixture
def plane(control_plane):
    install_crd(control_plane)
    return control_plane


@pytest.fixture
def breakable(fresh_control_plane):
    """A control plane that the test may freeze or kill."""
    install_crd(fresh_control_plane)
    return fresh_control_plane


def test_the_standby_takes_over_at_once_when_the_leader_is_asked_to_stop(
    plane, namespace, tmp_path
):
    with operator(plane.kubeconfig, tmp_path / "one", *elect(namespace)) as one:
        eventually(lambda: leads(one))
        with operator(plane.kubeconfig, tmp_path / "two", *elect(namespace)) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            first = lease_in(plane, namespace)["spec"]["holderIdentity"]
            assert not leads(two)

            assert one.stop(signal.SIGTERM) == 0

            # It need not run out: its holder has let go of it.
            assert lease_in(plane, namespace)["spec"].get("holderIdentity") != first
            eventually(lambda: leads(two))
            assert lease_in(plane, namespace)["spec"]["holderIdentity"] not in {first, ""}
            assert lease_in(plane, namespace)["spec"]["leaseTransitions"] >= 2


def test_the_standby_takes_over_from_a_leader_that_was_killed_and_goes_on(
    plane, namespace, tmp_path
):
    pool = Pool(plane, namespace)
    with operator(plane.kubeconfig, tmp_path / "one", *elect(namespace)) as one:
        eventually(lambda: leads(one))
        pool.apply()
        eventually(lambda: pool.replicas("prefill") == 1)
        with operator(plane.kubeconfig, tmp_path / "two", *elect(namespace)) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            one.stop(signal.SIGKILL)
            pool.apply(prefill={"minReplicas": 2})

            eventually(lambda: pool.replicas("prefill") == 2)
            assert leads(two)


def test_a_leader_whose_lease_was_taken_ends_at_once(plane, namespace, tmp_path):
    with operator(plane.kubeconfig, tmp_path / "one", *elect(namespace)) as one:
        eventually(lambda: leads(one))
        taken = json.dumps({"spec": {"holderIdentity": "somebody-else"}})
        lease = lease_in(plane, namespace)["metadata"]["name"]
        plane.run_kubectl("patch", "lease", lease, "-n", namespace, "--type=merge", "-p", taken)

        assert one.process.wait(timeout=120) == EXIT_LEASE_LOST
        assert "somebody-else" in one.log()


@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_a_leader_that_cannot_renew_ends_before_a_standby_may_act(breakable, tmp_path, fault):
    with operator(breakable.kubeconfig, tmp_path / "one", *elect("default")) as one:
        eventually(lambda: leads(one))
        others_wait_s = lease_in(breakable, "default")["spec"]["leaseDurationSeconds"]
        if fault == "frozen":
            with breakable.api_server_frozen():
                code = one.process.wait(timeout=120)
        else:
            breakable.kill_api_server()
            code = one.process.wait(timeout=120)

        assert code == EXIT_LEASE_LOST
        # By its own clock, by which it also writes: its process may end later on a busy machine.
        [given_up_s] = re.findall(r"No renewal for (\d+) s", one.log())
        assert int(given_up_s) < others_wait_s


def test_a_standby_outlives_an_outage_and_still_takes_over(breakable, tmp_path):
    with operator(breakable.kubeconfig, tmp_path / "one", *elect("default")) as one:
        eventually(lambda: leads(one))
        with operator(breakable.kubeconfig, tmp_path / "two", *elect("default")) as two:
            eventually(lambda: two.probe("/readyz") == 200)
            breakable.kill_api_server()
            assert one.process.wait(timeout=120) == EXIT_LEASE_LOST
            assert two.probe("/healthz") == 200
            breakable.start_api_server()

            eventually(lambda: leads(two))


def test_an_empty_lease_of_a_chart_can_be_taken(plane, namespace, tmp_path):
    empty = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"tandem-operator-{namespace}", "namespace": namespace},
    }
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(empty))

    with operator(plane.kubeconfig, tmp_path / "one", *elect(namespace)) as one:
        eventually(lambda: leads(one))
        renewed = lease_in(plane, namespace)["spec"]["renewTime"]
        drift_s = time.time() - time.mktime(time.strptime(renewed[:19], "%Y-%m-%dT%H:%M:%S"))
        # Far less than an hour, by which a wrong time zone would be off.
        assert abs(drift_s + time.timezone) < 600
