"""HTTPRoutes of pools: the real operator, the Gateway API's real definitions, a real API server.

No Gateway's controller runs here: a test writes a route's status as one would.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster import gateway_api
from e2e.cluster.controlplane import ControlPlane
from tandem_operator.kube.rights import CLUSTER_RIGHTS, POOL_RIGHTS, ROUTE_RIGHTS
from tests.integration.operator_process import (
    Pool,
    eventually,
    install_crd,
    operator,
    rights_role,
)

pytestmark = pytest.mark.timeout(900)

SERVED, UNSERVED, UNSWITCHED, FORBIDDEN = "routes", "unserved", "unswitched", "forbidden"
RIGHTS = (*POOL_RIGHTS, *CLUSTER_RIGHTS)
API = "/apis/gateway.networking.k8s.io/v1"
PUBLIC = {"name": "public", "namespace": "gateways"}
GATEWAY = {"parentRefs": [PUBLIC], "hostnames": ["llm.example.com"]}


def routed(pool):
    return pool.plane.request("GET", f"{API}/namespaces/{pool.namespace}/httproutes")["items"]


def route(pool):
    found = routed(pool)
    assert len(found) == 1
    return found[0]


def write_status(pool, *, accepted="True", reason="Accepted", message="as a controller says"):
    """Write a Gateway controller's answer to the route as it is."""
    found = route(pool)
    known = {
        "observedGeneration": found["metadata"]["generation"],
        "lastTransitionTime": "2026-05-04T10:00:00Z",
        "message": message,
    }
    conditions = [
        {"type": "Accepted", "status": accepted, "reason": reason, **known},
        {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs", **known},
    ]
    found["status"] = {
        "parents": [
            {
                "parentRef": found["spec"]["parentRefs"][0],
                "controllerName": "example.com/gateway",
                "conditions": conditions,
            }
        ]
    }
    path = f"{API}/namespaces/{pool.namespace}/httproutes/{found['metadata']['name']}"
    pool.plane.request("PUT", f"{path}/status", found)


def told(pool, *, status, reason):
    def found():
        condition = pool.condition("RouteAccepted")
        assert (condition["status"], condition["reason"]) == (status, reason), condition
        return condition["message"]

    return eventually(found)


def is_made(pool):
    """Return whether all parts of the pool that serve inside the cluster exist."""
    return pool.objects_of_kind("Deployment") == 3 and pool.replicas("decode") == 1


@contextlib.contextmanager
def serving(plane, namespace, log_path, *words, rights):
    """Run an operator of one namespace with exactly these rights."""
    where = {"name": "operator", "namespace": namespace}
    name = f"operator-{namespace}"
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": where},
        rights_role(name, rights),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [{"kind": "ServiceAccount", **where}],
        },
    ]
    items = {"apiVersion": "v1", "kind": "List", "items": made}
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(items))
    kubeconfig = plane.service_account_kubeconfig(namespace, "operator")
    with operator(kubeconfig, log_path, "--namespace", namespace, *words) as process:
        eventually(lambda: process.probe("/readyz") == 200)
        yield process


@dataclass(frozen=True)
class Cluster:
    """The control plane of these tests, and where operators log."""

    plane: ControlPlane
    logs: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A control plane of its own: the definitions of the Gateway API would be news to others."""
    if problem := gateway_api.problem():
        pytest.skip(problem)
    with ControlPlane.started() as plane:
        install_crd(plane)
        yield Cluster(plane, tmp_path_factory.mktemp("operators"))


@pytest.fixture(scope="module")
def unserved(cluster):
    """A pool that asked for a Gateway before the cluster knew routes, and its conditions then."""
    log = cluster.logs / UNSERVED
    words = ("--gateway-routes",)
    with serving(cluster.plane, UNSERVED, log, *words, rights=(*RIGHTS, *ROUTE_RIGHTS)):
        pool = Pool(cluster.plane, UNSERVED)
        pool.apply(router={"gateway": GATEWAY})
        message = told(pool, status="False", reason="GatewayAPIMissing")
        eventually(lambda: is_made(pool))
        cluster.plane.install_definition(gateway_api.definitions() / gateway_api.ROUTES)
        yield pool, message


@pytest.fixture(scope="module")
def running(cluster, unserved):
    """An operator that writes routes, with exactly the rights that it lists."""
    log = cluster.logs / SERVED
    words = ("--gateway-routes",)
    with serving(cluster.plane, SERVED, log, *words, rights=(*RIGHTS, *ROUTE_RIGHTS)) as process:
        yield process


@pytest.fixture
def pool(running, cluster):
    made = Pool(cluster.plane, SERVED)
    made.apply(router={"gateway": GATEWAY})
    eventually(lambda: len(routed(made)) == 1)
    yield made
    made.delete()
    eventually(lambda: not made.objects_of_kind("Deployment") and not routed(made))


def test_a_cluster_without_the_gateway_api_serves_on_and_has_the_route_once_it_knows_the_kind(
    unserved,
):
    pool, message = unserved

    assert "Install the CRDs of Gateway API 1.2" in message
    eventually(lambda: route(pool)["spec"]["hostnames"] == ["llm.example.com"])
    told(pool, status="Unknown", reason="Pending")


def test_the_api_server_takes_the_route_and_the_pool_owns_it(pool):
    made, uid = route(pool), pool.get()["metadata"]["uid"]

    assert made["metadata"]["ownerReferences"][0]["uid"] == uid
    assert made["spec"]["hostnames"] == ["llm.example.com"]
    (rule,) = made["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s"}
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/v1"}}]
    assert (rule["backendRefs"][0]["name"], rule["backendRefs"][0]["port"]) == ("tiny-router", 80)


def test_what_a_gateway_answers_is_told_and_its_hosts_are_shown(pool):
    write_status(pool, accepted="False", reason="NotAllowedByListeners", message="not from here")

    assert "not from here" in told(pool, status="False", reason="NotAllowedByListeners")
    assert "hostnames" not in pool.get()["status"]

    write_status(pool)

    told(pool, status="True", reason="Accepted")
    assert pool.get()["status"]["hostnames"] == ["llm.example.com"]


def passes(process):
    """Return how many passes the operator has made."""
    lines = process.metrics().splitlines()
    counts = [line for line in lines if line.startswith("tandem_reconcile_total")]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def test_a_route_at_rest_is_not_written_again_and_an_edit_is(running, pool):
    write_status(pool)
    told(pool, status="True", reason="Accepted")
    before, made = route(pool)["metadata"]["resourceVersion"], passes(running)

    eventually(lambda: passes(running) >= made + 4)

    assert route(pool)["metadata"]["resourceVersion"] == before

    pool.apply(router={"gateway": {**GATEWAY, "hostnames": ["b.example.com"]}})

    eventually(lambda: route(pool)["spec"]["hostnames"] == ["b.example.com"])
    told(pool, status="Unknown", reason="Pending")


def test_without_the_field_there_is_no_route_and_no_condition(pool):
    removal = [{"op": "remove", "path": "/spec/router/gateway"}]
    pool.kubectl("patch", "ipool", "tiny", "--type=json", "-p", json.dumps(removal))

    eventually(lambda: routed(pool) == [])
    eventually(lambda: pool.condition("RouteAccepted") == {})
    assert is_made(pool)


def test_a_deleted_route_comes_back(pool):
    pool.kubectl("delete", "httproute", "tiny-router")

    eventually(lambda: len(routed(pool)) == 1)


def test_an_annotation_of_another_stays_and_so_does_its_field_which_is_told(pool):
    pool.kubectl("annotate", "httproute", "tiny-router", "external-dns.example.com/ttl=60")
    pool.kubectl(
        *("patch", "httproute", "tiny-router", "--type=merge", "--field-manager=someone"),
        *("-p", '{"spec": {"hostnames": ["theirs.example.com"]}}'),
    )

    message = eventually(
        lambda: (found := pool.condition("FieldConflict"))["status"] == "True" and found["message"]
    )
    assert "HTTPRoute tiny-router" in message
    assert "someone" in message
    assert route(pool)["spec"]["hostnames"] == ["theirs.example.com"]
    assert route(pool)["metadata"]["annotations"]["external-dns.example.com/ttl"] == "60"
    assert pool.condition("Accepted")["status"] == "True"


def test_a_route_that_the_api_server_refuses_keeps_no_other_edit_from_the_pool(pool):
    twice = {"parentRefs": [PUBLIC, PUBLIC], "hostnames": ["llm.example.com"]}

    pool.apply(router={"gateway": twice}, decode={"minReplicas": 2, "maxReplicas": 3})

    message = told(pool, status="False", reason="RouteRefused")
    assert "The API server refused HTTPRoute tiny-router" in message
    assert "sectionName" in message
    eventually(lambda: pool.replicas("decode") == 2)
    assert pool.condition("Accepted")["status"] == "True"


def test_a_strangers_route_of_the_same_name_is_left_alone_and_named(running, cluster):
    pool = Pool(cluster.plane, SERVED, name="other")
    theirs = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "other-router"},
        "spec": {"hostnames": ["theirs.example.com"]},
    }
    pool.kubectl("apply", "-f", "-", stdin=json.dumps(theirs))

    pool.apply(router={"gateway": GATEWAY})

    message = told(pool, status="False", reason="RouteRefused")
    assert "HTTPRoute other-router exists already and does not belong to this pool" in message
    eventually(lambda: is_made(pool))
    path = f"{API}/namespaces/{SERVED}/httproutes/other-router"
    assert cluster.plane.request("GET", path)["spec"]["hostnames"] == ["theirs.example.com"]
    pool.delete()
    pool.kubectl("delete", "httproute", "other-router")


def test_an_installation_without_the_switch_says_so_and_serves_on(running, cluster):
    log = cluster.logs / UNSWITCHED
    with serving(cluster.plane, UNSWITCHED, log, rights=RIGHTS):
        pool = Pool(cluster.plane, UNSWITCHED)
        pool.apply(router={"gateway": GATEWAY})

        assert "pools.gatewayRoutes" in told(pool, status="False", reason="NotAllowed")
        eventually(lambda: is_made(pool))
        assert routed(pool) == []
        assert pool.condition("Accepted")["reason"] == "Valid"


def test_an_operator_without_the_right_says_so_and_serves_on(running, cluster):
    log = cluster.logs / FORBIDDEN
    with serving(cluster.plane, FORBIDDEN, log, "--gateway-routes", rights=RIGHTS):
        pool = Pool(cluster.plane, FORBIDDEN)
        pool.apply(router={"gateway": GATEWAY})

        assert "cannot" in told(pool, status="False", reason="RouteRefused")
        eventually(lambda: is_made(pool))
        assert routed(pool) == []
