"""An operator of some namespaces, with the rights that the chart gives it there and no other."""

import pytest

from tandem_operator.api.v1alpha1 import GROUP as GROUP_NAME
from tests.integration.charts import APART, CHART, CRDS, IMAGES, run_helm
from tests.integration.operator_process import Pool, eventually, operator

pytestmark = pytest.mark.timeout(900)

# No Role of a namespace grants the nodes, so those are refused from the first second on.
REFUSED = f'in API group \\"{GROUP_NAME}\\"'
SYSTEM, SERVED, OTHER = "tandem-system", ("team-a", "team-b"), "team-c"


@pytest.fixture
def plane(fresh_control_plane):
    """A control plane of its own, with the charts installed for two namespaces."""
    plane = fresh_control_plane
    for name in (SYSTEM, *SERVED, OTHER):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        plane.request("POST", "/api/v1/namespaces", body)
    place = ("--namespace", SYSTEM)
    watched = ("--set", f"watchNamespaces={{{','.join(SERVED)}}}")
    run_helm("install", "tandem-crds", CRDS, *place, kubeconfig=plane.kubeconfig)
    run_helm(
        *("install", "tandem", CHART, *place, *IMAGES, *APART, *watched),
        kubeconfig=plane.kubeconfig,
    )
    return plane


def test_pools_of_its_namespaces_run_and_one_lost_namespace_does_not_stop_the_others(
    plane, tmp_path
):
    words = ["--leader-elect", "--lease-namespace", SYSTEM]
    words += [f"--namespace={name}" for name in SERVED]
    first, second, other = (Pool(plane, name) for name in (*SERVED, OTHER))
    kubeconfig = plane.service_account_kubeconfig(SYSTEM, "tandem-operator")

    with operator(kubeconfig, tmp_path / "log", *words) as process:
        for pool in (other, first, second):
            pool.apply()
        for pool in (first, second):
            eventually(lambda pool=pool: pool.get()["status"]["observedGeneration"] == 1)
        assert "operator" not in other.get().get("status", {})
        assert other.objects_of_kind("Deployment") == 0
        assert REFUSED not in process.log()

        plane.run_kubectl("delete", "rolebinding", "tandem-operator", "-n", SERVED[1])
        process.stop()

    with operator(kubeconfig, tmp_path / "log", *words) as process:
        eventually(lambda: process.probe("/readyz") == 200)
        first.apply(prefill={"minReplicas": 2})
        eventually(lambda: first.replicas("prefill") == 2)
        eventually(lambda: REFUSED in process.log())
