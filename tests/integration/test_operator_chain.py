"""The whole chain on a real API server: what a router counted becomes replicas, with a reason."""

import json
import time

import pytest

from tests.integration.fake_pods import fake_pods
from tests.integration.operator_process import Pool, eventually, install_crd, node, operator

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def serving(control_plane, namespace, tmp_path):
    """A pool with Ready pods on an operator of its own."""
    install_crd(control_plane)
    pool = Pool(control_plane, namespace)
    words = ("--namespace", namespace)
    with (
        node(control_plane),
        fake_pods() as pods,
        operator(control_plane.kubeconfig, tmp_path / "log", *words),
    ):
        pool.apply(scaling={"stabilization": "5s"})
        eventually(lambda: pool.objects_of_kind("Pod") == 3)
        pool.make_pods_ready(host=pods.host)
        eventually(lambda: pool.condition("MetricsFresh")["status"] == "True")
        yield pool, pods


def load(pool, pods):
    """Let requests arrive at the pool's router, as if they had for five minutes."""
    names = [name for kind, name in pool.objects() if kind == "Pod"]
    by_role = {role: name for role in ("prefill", "decode") for name in names if role in name}
    pods.load(prefill_pod=by_role["prefill"], decode_pod=by_role["decode"])


def test_more_arrivals_than_one_pod_can_prefill_bring_another_with_a_reason(serving):
    pool, pods = serving

    load(pool, pods)

    eventually(lambda: pool.replicas("prefill") > 1)
    status = eventually(
        lambda: (
            pool.get()["status"] if pool.get()["status"]["decision"]["prefill"]["to"] > 1 else None
        )
    )
    assert "prefill" in status["decision"]["reason"]
    eventually(lambda: any("prefill 1 ->" in (each.get("note") or "") for each in pool.events()))
    memory = pool.objects()["ConfigMap", "tiny-memory"]
    assert json.loads(memory["data"]["memory.json"])


def test_classes_reach_the_routers_and_come_back_as_status(serving):
    pool, pods = serving
    batch = {"name": "batch", "service": "BestEffort", "ttft": {"target": "10m"}}
    pool.apply(slo={"preset": "Chat", "classes": [batch]}, scaling={"stabilization": "5s"})
    counted = {"window_s": 120.0, "output_tokens": 900, "good_output_tokens": 600}
    pods.classes = [
        {"name": "default", "finished": 0, "good": 0, "queued_requests": 0, **counted},
        {"name": "batch", "finished": 8, "good": 6, "queued_requests": 3, **counted},
    ]

    told = eventually(lambda: (pool.get()["status"].get("slo") or {}).get("classes"))

    settings = json.loads(pool.objects()["ConfigMap", "tiny-router"]["data"]["router.json"])
    bounds = {each["name"]: each["slo"]["ttft_s"] for each in settings["classes"]}
    assert bounds == {"default": settings["slo"]["ttft_s"], "batch": 600.0}
    assert told == [
        {"name": "default", "queued": 0},
        {
            "name": "batch",
            "attainment": "75.0%",
            "goodput": "0.05",
            "goodTokens": "5",
            "queued": 3,
        },
    ]


def test_tenants_come_back_as_status(serving):
    pool, pods = serving
    tenants = {"named": [{"name": "acme"}]}
    pool.apply(router={"tenants": tenants}, scaling={"stabilization": "5s"})
    counted = {"window_s": 120.0, "too_late": 0, "output_tokens": 600}
    pods.tenants = [
        {"name": "acme", "finished": 8, "good": 6, "limited": 4, **counted},
        {"name": "unknown", "finished": 8, "good": 6, "limited": 0, **counted},
    ]

    told = eventually(lambda: pool.get()["status"].get("tenants"))

    assert told == [
        {
            "name": "acme",
            "attainment": "75.0%",
            "requests": "0.1",
            "refused": "0.03",
            "outputTokens": "5",
        }
    ]


def test_routers_that_are_no_longer_ready_are_still_read(serving):
    pool, pods = serving
    pool.lose_readiness("router")

    load(pool, pods)

    eventually(lambda: pool.replicas("prefill") > 1)
    assert pool.condition("MetricsFresh")["status"] == "True"


def test_silent_routers_freeze_the_counts_and_say_so(serving):
    pool, pods = serving
    load(pool, pods)
    eventually(lambda: pool.replicas("prefill") > 1)
    grown = pool.replicas("prefill")

    pods.silent = True

    eventually(lambda: pool.condition("MetricsFresh")["status"] == "False")
    # Four of the pool's stabilisation windows: a shrink would have come by then.
    time.sleep(20)
    assert pool.replicas("prefill") == grown


def test_a_pod_monitor_appears_once_its_kind_does(serving):
    pool, _ = serving
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podmonitors.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    pool.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    try:
        found = eventually(
            lambda: json.loads(pool.kubectl("get", "podmonitors", "tiny", "-o", "json")),
            within_s=300,
        )
        assert found["metadata"]["ownerReferences"][0]["kind"] == "InferencePool"
    finally:
        pool.kubectl("delete", "crd", "podmonitors.monitoring.coreos.com")

    pool.apply(decode={"minReplicas": 2})
    eventually(lambda: pool.replicas("decode") == 2)
