"""An External role whose count the real HorizontalPodAutoscaler controller owns."""

import json
import time

import pytest

from e2e.cluster.controlplane import ControlPlane
from e2e.cluster.ports import free_port
from e2e.external_metrics import ExternalMetrics, api_service, autoscaler
from tests.integration.operator_process import GROUP, Pool, eventually, install_crd, operator

pytestmark = pytest.mark.timeout(900)

EXTERNAL = {"management": "External", "minReplicas": 1, "maxReplicas": 4}
AS_OFTEN_S = 2


@pytest.fixture(scope="module")
def plane():
    """A control plane whose autoscalers look every two seconds."""
    often = f"--horizontal-pod-autoscaler-sync-period={AS_OFTEN_S}s"
    with ControlPlane.started(controllers=(often,)) as made:
        install_crd(made)
        yield made


@pytest.fixture(scope="module")
def metrics(plane):
    """External metrics that the API server passes on to a server of this process."""
    certificates = plane.folder / "certs"
    server = ExternalMetrics(
        "127.0.0.1",
        free_port(),
        certificate=str(certificates / "apiserver.crt"),
        key=str(certificates / "apiserver.key"),
    )
    server.start()
    here = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "external-metrics", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    there = api_service(service="external-metrics", namespace="default", port=server.server_port)
    items = {"apiVersion": "v1", "kind": "List", "items": [here, there]}
    plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(items))
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def running(plane, tmp_path_factory):
    with operator(plane.kubeconfig, tmp_path_factory.mktemp("operator") / "log") as process:
        eventually(lambda: process.probe("/readyz") == 200)
        yield process


@pytest.fixture
def namespace(plane, request):
    name = request.node.name.replace("_", "-")[:50].strip("-")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    plane.request("POST", "/api/v1/namespaces", body)
    yield name
    plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def pool(running, plane, namespace):
    made = Scaled(plane, namespace)
    made.apply(decode=EXTERNAL)
    eventually(lambda: made.role("decode")["status"]["selector"])
    eventually(lambda: made.role("decode")["spec"]["replicas"] == 1)
    return made


class Scaled(Pool):
    """A pool with views of its PoolRoles."""

    def _path(self, role):
        return f"{GROUP}/namespaces/{self.namespace}/poolroles/{self.name}-{role}"

    def role(self, role):
        return self.plane.request("GET", self._path(role))

    def has_role(self, role):
        return ("PoolRole", f"{self.name}-{role}") in self.objects()

    def effective(self, role="decode"):
        [found] = self.role(role)["status"]["conditions"]
        return found["status"], found["reason"]

    def ask(self, replicas, role="decode"):
        self.kubectl("scale", f"poolrole/{self.name}-{role}", f"--replicas={replicas}")

    def add_autoscaler(self, *, metric, target="decode", most=4):
        body = autoscaler("scaler", target=f"{self.name}-{target}", metric=metric, most=most)
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def add_deployment_autoscaler(self, *, metric):
        body = autoscaler("old", target=f"{self.name}-decode", metric=metric, most=4)
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{self.name}-decode"}
        body["spec"]["scaleTargetRef"] = target
        self.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def autoscaler_conditions(self):
        path = f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers/scaler"
        found = self.plane.request("GET", path)["status"].get("conditions", [])
        return {each["type"]: (each["status"], each["reason"]) for each in found}

    def generations(self):
        """Return how often the spec of the decode Deployment and of its PoolRole was written."""
        return tuple(
            each["metadata"]["generation"]
            for each in (self.deployment("decode"), self.role("decode"))
        )


def passes_more(pool, seconds):
    """Let time pass in which the operator and the autoscaler look several times."""
    until_s = time.time() + seconds
    eventually(lambda: time.time() > until_s)


def test_an_autoscaler_owns_decode_both_ways_with_one_write_for_each_change(pool, metrics):
    metrics.values["wanted"] = "3"
    before = pool.generations()
    pool.add_autoscaler(metric="wanted")

    eventually(lambda: pool.replicas("decode") == 3)
    eventually(lambda: pool.effective() == ("True", "InForce"))
    eventually(lambda: pool.role("decode")["status"]["replicas"] == 3)
    passes_more(pool, 12)
    metrics.values["wanted"] = "1"
    eventually(lambda: pool.replicas("decode") == 1)
    passes_more(pool, 12)

    assert pool.replicas("decode") == 1
    # Up and down: two writes of each, by the autoscaler and by Tandem after it.
    after = pool.generations()
    assert tuple(now - then for now, then in zip(after, before, strict=True)) == (2, 2)
    assert pool.condition("FieldConflict")["status"] == "False"
    assert pool.autoscaler_conditions()["ScalingActive"][0] == "True"


def test_at_rest_nothing_of_a_followed_role_is_written(pool, metrics):
    metrics.values["still"] = "2"
    pool.add_autoscaler(metric="still")
    eventually(lambda: pool.replicas("decode") == 2)
    eventually(lambda: pool.role("decode")["status"]["replicas"] == 2)
    eventually(lambda: pool.effective() == ("True", "InForce"))
    eventually(pool.is_carried_out)

    kinds = {"Deployment", "PoolRole"}
    before = {key: each for key, each in pool.versions().items() if key[0] in kinds}
    passes_more(pool, 15)
    assert before == {key: each for key, each in pool.versions().items() if key[0] in kinds}


def test_a_count_outside_the_pools_bounds_is_cut_and_told(pool, metrics):
    metrics.values["wild"] = "50"
    pool.add_autoscaler(metric="wild", most=9)

    eventually(lambda: pool.replicas("decode") == 4)
    eventually(lambda: pool.effective() == ("False", "Limited"))
    assert pool.role("decode")["spec"]["replicas"] > 4
    [told] = pool.role("decode")["status"]["conditions"]
    assert "decode.maxReplicas" in told["message"]


def test_a_role_asked_to_zero_keeps_its_minimum(pool):
    # As KEDA does at rest.
    pool.ask(0)

    eventually(lambda: pool.effective() == ("False", "Limited"))
    [told] = pool.role("decode")["status"]["conditions"]
    assert "decode.minReplicas" in told["message"]
    assert pool.replicas("decode") == 1


def test_an_autoscaler_of_a_managed_role_has_no_target_writes_nothing_and_is_told_of(pool, metrics):
    metrics.values["futile"] = "4"
    before = pool.deployments_version()
    pool.add_autoscaler(metric="futile", target="prefill")

    eventually(
        lambda: pool.autoscaler_conditions()["AbleToScale"] == ("False", "FailedGetScale"),
    )
    said = eventually(
        lambda: (
            pool.condition("ScalingActive")["reason"] == "AutoscalerWaits"
            and pool.condition("ScalingActive")["message"]
        ),
    )
    assert "HorizontalPodAutoscaler scaler scales nothing" in said
    assert "prefill.management" in said
    eventually(lambda: any(each["reason"] == "AutoscalerWaits" for each in pool.events()))
    assert [each for each in pool.counts_since(before) if each == ("tiny-prefill", 4)] == []
    assert not pool.has_role("prefill")


def test_an_owner_of_the_deployment_itself_is_left_as_before(pool):
    pool.scale("decode", 3)

    eventually(lambda: pool.role("decode")["spec"]["replicas"] == 3)
    passes_more(pool, 8)
    assert pool.replicas("decode") == 3
    assert pool.effective() == ("Unknown", "NotAsked")


def test_a_pool_role_takes_over_from_an_owner_of_the_deployment_without_a_conflict(pool):
    pool.scale("decode", 3)
    eventually(lambda: pool.role("decode")["spec"]["replicas"] == 3)

    pool.ask(2)

    eventually(lambda: pool.replicas("decode") == 2)
    eventually(lambda: pool.effective() == ("True", "InForce"))
    assert pool.condition("FieldConflict")["status"] == "False"
    assert not [each for each in pool.events() if each["reason"] == "FieldTaken"]


def test_an_autoscaler_of_the_deployment_beside_a_pool_role_is_left_alone_for_long(pool, metrics):
    metrics.values["old"] = "3"
    pool.add_deployment_autoscaler(metric="old")
    eventually(lambda: pool.replicas("decode") == 3)

    pool.ask(2)
    eventually(lambda: pool.effective() == ("False", "Contested"))
    eventually(lambda: pool.replicas("decode") == 3)
    before = pool.generations()
    passes_more(pool, 20)

    assert pool.generations() == before
    assert pool.effective() == ("False", "Contested")
    conflict = pool.condition("FieldConflict")
    assert "HorizontalPodAutoscaler old changes the replicas of decode" in conflict["message"]


def test_a_deleted_pool_role_comes_back_and_asks_for_nothing(pool):
    pool.ask(3)
    eventually(lambda: pool.replicas("decode") == 3)
    uid = pool.role("decode")["metadata"]["uid"]

    pool.kubectl("delete", "poolrole", "tiny-decode")

    eventually(lambda: pool.role("decode")["metadata"]["uid"] != uid)
    eventually(lambda: pool.role("decode")["spec"]["replicas"] == 3)
    eventually(lambda: pool.effective() == ("Unknown", "NotAsked"))
    assert pool.replicas("decode") == 3


def test_handing_a_role_back_removes_its_pool_role_and_keeps_the_count(pool):
    pool.ask(3)
    eventually(lambda: pool.replicas("decode") == 3)

    pool.apply(decode={**EXTERNAL, "management": "Managed", "minReplicas": 3})

    eventually(lambda: not pool.has_role("decode"))
    assert pool.replicas("decode") == 3
    pool.apply(decode=EXTERNAL)
    eventually(lambda: pool.role("decode")["spec"]["replicas"] == 3)
    assert pool.replicas("decode") == 3


def test_an_operator_that_just_started_writes_no_count_of_a_followed_role(plane, running, pool):
    pool.ask(3)
    eventually(lambda: pool.effective() == ("True", "InForce"))
    eventually(lambda: pool.role("decode")["status"]["replicas"] == 3)
    before = pool.generations()

    with operator(plane.kubeconfig, running.log_path.with_name("second")) as second:
        eventually(lambda: second.probe("/readyz") == 200)
        passes_more(pool, 12)

    assert pool.generations() == before


def test_the_table_and_explain_show_the_asked_and_the_recommended_count(pool):
    pool.ask(2)
    eventually(lambda: pool.effective() == ("True", "InForce"))
    eventually(lambda: pool.role("decode")["status"]["replicas"] == 2)

    head, row = pool.kubectl("get", "irole").splitlines()
    assert head.split() == [
        *("NAME", "ASKED", "REPLICAS", "RECOMMENDED", "EFFECTIVE", "REASON", "AGE")
    ]
    recommended = str(pool.get()["status"]["decode"]["desired"])
    assert row.split()[:6] == ["tiny-decode", "2", "2", recommended, "True", "InForce"]
    assert "Replicas that Tandem would set" in pool.kubectl(
        "explain", "poolroles.status.recommended"
    )
