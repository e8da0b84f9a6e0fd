"""Charts on a real API server: rights that hold, upgrades and uninstalls that harm no pool."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.controlplane import ControlPlane
from manifests.generate import INSTALL, NAMESPACE, REGISTRY
from tandem_operator.workloads.builders.services import router_role
from tandem_operator.workloads.pool_names import PoolName
from tests.integration import older_release
from tests.integration.charts import APART, CHART, CRDS, IMAGES, ensure_namespace, run_helm
from tests.integration.operator_process import Pool, eventually, operator
from tests.unit.api.bad_pools import GOOD, merged

PLACE = ("--namespace", NAMESPACE)
TEAM = "team-a"
POOLS = "inferencepools.tandem-inference.io"
ROLES = "poolroles.tandem-inference.io"
OPERATOR = f"system:serviceaccount:{NAMESPACE}:tandem-operator"


@pytest.fixture(scope="module")
def installed() -> Iterator[ControlPlane]:
    """Both charts installed by helm, on an API server that no other test has put a CRD on."""
    with ControlPlane.started(users=("alice",)) as plane:
        ensure_namespace(plane, NAMESPACE)
        ensure_namespace(plane, TEAM)
        run_helm("install", "tandem-crds", CRDS, *PLACE, kubeconfig=plane.kubeconfig)
        run_helm(
            *("install", "tandem", CHART, *PLACE, *IMAGES, *APART, "--set", "replicas=2"),
            kubeconfig=plane.kubeconfig,
        )
        yield plane


@pytest.fixture
def empty_plane(fresh_control_plane: ControlPlane) -> ControlPlane:
    """An API server with nothing but the operator's namespace."""
    ensure_namespace(fresh_control_plane, NAMESPACE)
    return fresh_control_plane


def as_operator(plane: ControlPlane, *words: str, stdin: str = "") -> str:
    """Run kubectl with the operator's own rights; what it prints."""
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "tandem-operator")
    result = subprocess.run(
        [plane.kubectl, "--kubeconfig", kubeconfig, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return result.stdout + result.stderr


def may(plane: ControlPlane, user: str, verb: str, resource: str, *words: str) -> bool:
    """Return whether a user may do that in the team's namespace."""
    try:
        out = plane.run_kubectl(
            *("auth", "can-i", verb, resource, "-n", TEAM, f"--as={user}", *words)
        )
    except RuntimeError:
        return False
    return out.startswith("yes")


def test_install_manifest_says_the_same_as_the_charts(installed: ControlPlane) -> None:
    out = installed.run_kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"),
        *("-f", str(INSTALL)),
    )

    assert "deployment.apps/tandem-operator serverside-applied (server dry run)" in out
    assert f"{POOLS} serverside-applied" in out


def test_installed_operator_can_do_all_its_work(installed: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "tandem-operator")
    words = ("--leader-elect", f"--lease-namespace={NAMESPACE}")
    pool = Pool(installed, TEAM)

    with operator(kubeconfig, tmp_path / "log", *words) as process:
        pool.apply()
        eventually(lambda: pool.get()["status"]["observedGeneration"] == 1)
        assert process.stop() == 0

    assert pool.objects_of_kind("Deployment") == 3
    assert "forbidden" not in process.log().lower()


def test_the_check_of_helm_test_passes_with_the_rights_of_any_account(
    installed: ControlPlane, tmp_path: Path
) -> None:
    installed.run_kubectl("create", "serviceaccount", "tester", "-n", NAMESPACE)
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "tester")
    words = ("--leader-elect", f"--lease-namespace={NAMESPACE}")

    with operator(installed.kubeconfig, tmp_path / "log", *words) as process:
        url = f"http://127.0.0.1:{process.health_port}/readyz"
        asked = subprocess.run(
            [sys.executable, "-m", "tandem_operator.installed", url],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    assert (asked.stdout, asked.returncode) == ("The CRDs and the operator answer.\n", 0)


def test_the_notes_say_which_namespaces_are_served_and_how_to_check(
    installed: ControlPlane,
) -> None:
    given = ("--set", "watchNamespaces={a,b},httpProxy=http://proxy:1", "--dry-run=client")

    notes = run_helm(
        *("install", "t", CHART, *PLACE, *IMAGES, *APART, *given),
        kubeconfig=installed.kubeconfig,
    )

    assert "serves the pools of a, b." in notes
    assert "helm test t -n tandem-system" in notes
    assert "The proxy has no effect yet" in notes


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("get", "secrets"),
        ("create", "pods"),
        ("delete", "pods"),
        ("patch", "nodes"),
        ("create", "clusterroles"),
        ("update", POOLS),
        ("delete", POOLS),
        ("update", "leases.coordination.k8s.io"),
    ],
)
def test_installed_operator_may_not(installed: ControlPlane, verb: str, resource: str) -> None:
    assert may(installed, OPERATOR, "list", POOLS)
    assert not may(installed, OPERATOR, verb, resource)


def test_an_operator_of_another_namespace_may_read_the_lease_and_no_other(
    installed: ControlPlane,
) -> None:
    installed.run_kubectl("create", "serviceaccount", "other-operator", "-n", TEAM)
    kubeconfig = installed.service_account_kubeconfig(TEAM, "other-operator")

    def can(verb: str, name: str) -> bool:
        words = ("auth", "can-i", verb, f"leases/{name}", "-n", NAMESPACE)
        asked = subprocess.run(
            [installed.kubectl, "--kubeconfig", kubeconfig, *words],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return asked.stdout.startswith("yes")

    assert can("get", "tandem-operator")
    assert not can("update", "tandem-operator")
    assert not can("get", "another")


def test_installed_operator_cannot_give_away_more_than_it_has(
    installed: ControlPlane,
) -> None:
    role = router_role(PoolName(namespace=TEAM, name="greedy", uid="0000-0000"))
    role["rules"] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]

    out = as_operator(installed, "apply", "--server-side", "-f", "-", stdin=json.dumps(role))
    assert "attempting to grant RBAC permissions not currently held" in out


@pytest.mark.parametrize(("role", "may_create"), [("view", False), ("edit", True), ("admin", True)])
def test_users_of_a_namespace_may_with_pools_what_they_may_with_the_rest(
    installed: ControlPlane, role: str, may_create: bool
) -> None:
    user = f"{role}-alice"
    installed.run_kubectl(
        *("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", "-n", TEAM)
    )

    # Aggregation is a controller's work.
    eventually(lambda: may(installed, user, "list", POOLS))
    assert may(installed, user, "create", POOLS) is may_create
    assert may(installed, user, "delete", POOLS) is may_create
    assert not may(installed, user, "patch", POOLS, "--subresource=status")
    assert may(installed, user, "get", ROLES)
    assert may(installed, user, "patch", ROLES, "--subresource=scale") is may_create
    assert not may(installed, user, "create", ROLES)


def test_uninstalling_both_charts_keeps_crd_and_pools(
    empty_plane: ControlPlane,
) -> None:
    plane = empty_plane
    run_helm("install", "tandem-crds", CRDS, *PLACE, kubeconfig=plane.kubeconfig)
    run_helm("install", "tandem", CHART, *PLACE, *IMAGES, *APART, kubeconfig=plane.kubeconfig)
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(GOOD))

    run_helm("uninstall", "tandem", *PLACE, kubeconfig=plane.kubeconfig)
    run_helm("uninstall", "tandem-crds", *PLACE, kubeconfig=plane.kubeconfig)

    assert "good" in plane.run_kubectl("get", "ipool")
    # A later installation takes the kept definition over again.
    run_helm("install", "tandem-crds", CRDS, *PLACE, kubeconfig=plane.kubeconfig)


def test_upgrade_from_an_older_release_keeps_pools_as_they_are(
    empty_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = empty_plane
    older = older_release.build(tmp_path)
    run_helm("install", "tandem-crds", older.crds, *PLACE, kubeconfig=plane.kubeconfig)
    run_helm("install", "tandem", older.operator, *PLACE, kubeconfig=plane.kubeconfig)
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(GOOD))
    newer = merged(GOOD, {"spec": {"scaling": {"maxStep": 2}}})
    with pytest.raises(RuntimeError, match="unknown field"):
        plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(newer))
    before = read_pool(plane)

    run_helm("upgrade", "tandem-crds", CRDS, *PLACE, kubeconfig=plane.kubeconfig)
    run_helm("upgrade", "tandem", CHART, *PLACE, *IMAGES, *APART, kubeconfig=plane.kubeconfig)

    after = read_pool(plane)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert after["metadata"]["generation"] == 1
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(newer))
    assert read_pool(plane)["spec"]["scaling"]["maxStep"] == 2
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    found = plane.run_kubectl("get", "deployment", "tandem-operator", *PLACE, "-o", image)
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert found == f"{REGISTRY}/tandem/operator:{version}"


def test_one_release_installs_upgrades_and_keeps_the_kind(empty_plane: ControlPlane) -> None:
    plane = empty_plane
    run_helm("install", "tandem", CHART, *PLACE, *IMAGES, kubeconfig=plane.kubeconfig)
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(GOOD))
    of_ours = "commonLabels.team=a"

    run_helm(
        *("upgrade", "tandem", CHART, *PLACE, *IMAGES, "--set", of_ours),
        kubeconfig=plane.kubeconfig,
    )
    assert POOLS in plane.run_kubectl("get", "crd", "-l", "team=a", "-o", "name")
    run_helm("uninstall", "tandem", *PLACE, kubeconfig=plane.kubeconfig)
    assert "good" in plane.run_kubectl("get", "ipool")

    # A later installation takes the kept definition over again.
    run_helm("install", "tandem", CHART, *PLACE, *IMAGES, kubeconfig=plane.kubeconfig)


def test_a_kind_of_another_release_is_refused_with_both_ways_out(empty_plane: ControlPlane) -> None:
    plane = empty_plane
    run_helm("install", "tandem-crds", CRDS, *PLACE, kubeconfig=plane.kubeconfig)

    with pytest.raises(
        RuntimeError, match=r"another release \(tandem-crds in namespace"
    ) as refused:
        run_helm("install", "tandem", CHART, *PLACE, *IMAGES, kubeconfig=plane.kubeconfig)
    assert "set crds.enabled to false, or give the CRD to this release" in str(refused.value)

    # The command of docs/how-to/upgrade-and-uninstall.md.
    run_helm("uninstall", "tandem-crds", *PLACE, kubeconfig=plane.kubeconfig)
    plane.run_kubectl(
        *("annotate", "crd", POOLS, ROLES, "--overwrite"),
        *("meta.helm.sh/release-name=tandem", f"meta.helm.sh/release-namespace={NAMESPACE}"),
    )
    run_helm("install", "tandem", CHART, *PLACE, *IMAGES, kubeconfig=plane.kubeconfig)


def read_pool(plane: ControlPlane) -> dict[str, Any]:
    """Return the good pool as stored."""
    return dict(json.loads(plane.run_kubectl("get", POOLS, "good", "-o", "json")))
