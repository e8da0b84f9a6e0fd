"""The CRD on a real API server: what it accepts, fills in, refuses with a sentence, and shows."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.cluster.controlplane import ControlPlane
from manifests.generate import ROOT
from tandem_operator.api import API_VERSION, PoolStatus, parse_pool
from tandem_operator.api.crd import custom_resource_definition
from tests.unit.api.bad_pools import BAD_POOLS, GOOD, OFFICE, Bad, merged

SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))
DEFINITION = ROOT / "crds" / "inferencepools.tandem-inference.io.yaml"
RESOURCE = "inferencepools.tandem-inference.io"

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    """kubectl on an API server that knows our CRD."""
    control_plane.install_definition(DEFINITION)
    return control_plane.run_kubectl


@pytest.fixture
def running_pool(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """A good pool with the status of a served one."""
    _apply(kubectl, namespace, GOOD)
    status = {"status": {"endpoint": "http://good-router", "prefill": {"ready": 1}}}
    kubectl(
        *("patch", RESOURCE, "good", "-n", namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps(status)),
    )
    return _read(kubectl, namespace)


def _apply(kubectl: Kubectl, namespace: str, obj: Any, *words: str) -> str:
    return kubectl("apply", "-n", namespace, "-f", "-", *words, stdin=json.dumps(obj))


def _read(kubectl: Kubectl, namespace: str, name: str = "good") -> dict[str, Any]:
    return dict(json.loads(kubectl("get", RESOURCE, name, "-n", namespace, "-o", "json")))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_accepts_every_sample(kubectl: Kubectl, sample: Any) -> None:
    out = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(sample))

    assert "created (server dry run)" in out


@pytest.mark.parametrize("bad", BAD_POOLS, ids=lambda bad: bad.name)
def test_refuses_a_bad_manifest(kubectl: Kubectl, bad: Bad) -> None:
    with pytest.raises(RuntimeError) as refusal:
        _apply(kubectl, "default", bad.manifest(), "--dry-run=server")

    sentence = str(refusal.value)
    assert bad.field.rstrip(".") in sentence
    if bad.works is not None:
        assert bad.works in sentence


def test_refuses_a_megabyte_of_labels(kubectl: Kubectl) -> None:
    labels = {f"label-{number:05}": "x" * 60 for number in range(14_000)}

    with pytest.raises(RuntimeError, match=r"[Tt]oo (large|long)"):
        _apply(kubectl, "default", merged(GOOD, {"metadata": {"labels": labels}}))


@pytest.mark.timeout(420)
def test_bad_manifests_over_a_running_pool_change_nothing(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    for bad in BAD_POOLS:
        manifest = merged(bad.manifest(), {"metadata": {"name": "good"}})
        if bad.field == "metadata.name":
            continue  # Another name is another object.
        with pytest.raises(RuntimeError):
            _apply(kubectl, namespace, manifest)

    assert _read(kubectl, namespace) == running_pool


def test_fills_in_the_defaults_of_the_models(
    kubectl: Kubectl, running_pool: dict[str, Any]
) -> None:
    stored = running_pool["spec"]

    assert stored["engine"]["maxNumSeqs"] == 256
    assert stored["router"]["timeouts"]["firstToken"] == "120s"
    assert stored["slo"]["attainment"] == "99%"
    assert parse_pool(running_pool, strict=True).spec.to_object() == stored
    assert parse_pool(GOOD).spec.to_object() == stored


def test_fills_in_the_rest_of_a_half_given_object(kubectl: Kubectl, namespace: str) -> None:
    router = {"router": {"timeouts": {"connect": "2s"}}, "metrics": {}}
    _apply(kubectl, namespace, merged(GOOD, {"spec": router}))

    stored = _read(kubectl, namespace)["spec"]
    assert stored["router"]["timeouts"] == {
        "connect": "2s",
        "head": "10s",
        "body": "10s",
        "prefill": "60s",
        "firstToken": "120s",
        "idle": "60s",
        "request": "600s",
    }
    assert stored["metrics"] == {"source": "Auto"}


def test_takes_classes_and_merges_them_by_name(kubectl: Kubectl, namespace: str) -> None:
    batch = {"name": "batch", "service": "BestEffort", "models": ["tiny-batch"]}
    premium = {"name": "premium", "keys": ["sha256:" + "0" * 64], "attainment": "99.9%"}
    spec = {"model": {"aliases": ["tiny-batch"]}, "slo": {"classes": [batch, premium]}}
    _apply(kubectl, namespace, merged(GOOD, {"spec": spec}))

    defaults = {"priority": 0, "whenLate": "Serve"}
    stored = _read(kubectl, namespace)
    assert stored["spec"]["slo"]["classes"] == [
        batch | defaults,
        premium | defaults | {"service": "Guaranteed"},
    ]
    assert parse_pool(stored, strict=True).spec.to_object() == stored["spec"]
    twice = merged(GOOD, {"spec": {"slo": {"classes": [premium, premium]}}})
    with pytest.raises(RuntimeError, match="Duplicate value"):
        _apply(kubectl, namespace, twice)


def test_takes_schedules_and_fills_in_their_time_zone(kubectl: Kubectl, namespace: str) -> None:
    _apply(kubectl, namespace, merged(GOOD, {"spec": {"scaling": {"schedules": [OFFICE]}}}))

    stored = _read(kubectl, namespace)
    assert stored["spec"]["scaling"]["schedules"] == [{**OFFICE, "timeZone": "UTC"}]
    assert parse_pool(stored, strict=True).spec.to_object() == stored["spec"]


def test_second_apply_of_the_same_pool_is_no_change(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    assert "unchanged" in _apply(kubectl, namespace, GOOD)
    assert _read(kubectl, namespace) == running_pool


def test_spec_edit_raises_generation_and_status_write_does_not(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    assert running_pool["metadata"]["generation"] == 1
    _apply(kubectl, namespace, merged(GOOD, {"spec": {"slo": {"tpot": {"target": "40ms"}}}}))

    edited = _read(kubectl, namespace)
    assert edited["metadata"]["generation"] == 2
    assert edited["status"] == running_pool["status"]


def test_pod_templates_are_kept_as_they_are(kubectl: Kubectl, namespace: str) -> None:
    template = {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "engine"}]},
    }
    _apply(kubectl, namespace, merged(GOOD, {"spec": {"decode": {"podTemplate": template}}}))

    assert _read(kubectl, namespace)["spec"]["decode"]["podTemplate"] == template


def test_full_status_survives_the_schema(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    status = FULL_STATUS.to_object()
    applied = {
        "apiVersion": API_VERSION,
        "kind": "InferencePool",
        "metadata": {"name": "good"},
        "status": status,
    }
    kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=tandem-status"),
        *("--subresource=status", "-n", namespace, "-f", "-"),
        stdin=json.dumps(applied),
    )

    stored = _read(kubectl, namespace)
    assert stored["status"] == status
    assert stored["spec"] == running_pool["spec"]


def test_a_pool_that_no_operator_saw_says_so(kubectl: Kubectl, namespace: str) -> None:
    _apply(kubectl, namespace, GOOD)
    assert _read(kubectl, namespace)["status"] == {"observedGeneration": -1}

    claim = {"status": {"operator": "tandem-system/operator"}}
    kubectl(
        *("apply", "--server-side", "--subresource=status", "--field-manager=tandem-status"),
        *("-n", namespace, "-f", "-"),
        stdin=json.dumps(
            {
                "apiVersion": API_VERSION,
                "kind": "InferencePool",
                "metadata": {"name": "good"},
                **claim,
            }
        ),
    )

    assert _read(kubectl, namespace)["status"] == {"observedGeneration": -1, **claim["status"]}


def test_conditions_of_two_writers_merge_by_type(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    for kind in ("Ready", "Accepted"):
        condition = {**FULL_STATUS.to_object()["conditions"][0], "type": kind}
        kubectl(
            *("apply", "--server-side", "--subresource=status", f"--field-manager={kind.lower()}"),
            *("-n", namespace, "-f", "-"),
            stdin=json.dumps(
                {
                    "apiVersion": API_VERSION,
                    "kind": "InferencePool",
                    "metadata": {"name": "good"},
                    "status": {"conditions": [condition]},
                }
            ),
        )

    kinds = [one["type"] for one in _read(kubectl, namespace)["status"]["conditions"]]
    assert kinds == ["Ready", "Accepted"]


def test_prints_the_columns_that_people_look_for(
    kubectl: Kubectl, namespace: str, running_pool: dict[str, Any]
) -> None:
    kubectl(
        *("patch", RESOURCE, "good", "-n", namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps({"status": FULL_STATUS.to_object()})),
    )

    head, row = kubectl("get", "ipool", "-n", namespace).splitlines()
    assert head.split() == [
        *("NAME", "MODEL", "PREFILL", "DECODE", "TTFT-P95", "TPOT-P95"),
        *("ATTAINMENT", "GOODPUT/GPU", "READY", "REASON", "AGE"),
    ]
    assert row.split()[:10] == [
        *("good", "tiny", "2/3", "1/1", "412ms", "21.5ms", "99.2%", "1.83", "True", "RolledOut"),
    ]
    assert "good" in kubectl("get", "tandem", "-n", namespace)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("ipool.spec.slo.ttft", "time to first token"),
        ("ipool.spec.slo.ttft.target", "such as 500ms or 1.5s"),
        ("ipool.spec.slo.ttft.perThousandPromptTokens", "1,000 prompt tokens"),
        ("ipool.spec.engine.kvCacheMemory", "in bytes"),
        ("ipool.spec.scaling.gpuBudget", "Most GPUs of both fleets"),
        ("ipool.status.prefill.capacity", "Requests per second"),
        ("ipool.status.observedGeneration", "until an operator has seen the pool"),
    ],
)
def test_explains_fields_with_their_unit(kubectl: Kubectl, path: str, words: str) -> None:
    assert words in " ".join(kubectl("explain", path).split())


def test_definition_is_accepted_unchanged_by_the_api_server(kubectl: Kubectl) -> None:
    stored = json.loads(kubectl("get", "crd", RESOURCE, "-o", "json"))
    version = custom_resource_definition()["spec"]["versions"][0]

    assert stored["spec"]["versions"][0]["schema"] == version["schema"]
    assert not [
        one
        for one in stored["status"]["conditions"]
        if one["type"] == "NonStructuralSchema" or one["status"] != "True"
    ]


FULL_STATUS = PoolStatus.model_validate(
    {
        "observedGeneration": 1,
        "endpoint": "http://good-router.ns.svc",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "RolledOut",
                "message": "The pool serves.",
            }
        ],
        **{
            role: {
                "current": desired,
                "ready": ready,
                "desired": desired,
                "pending": desired - ready,
                "capacity": "7.5",
                "utilization": "74.0%",
                "summary": f"{ready}/{desired}",
            }
            for role, ready, desired in (("prefill", 2, 3), ("decode", 1, 1))
        },
        "slo": {
            "ttft": {"p50": "120ms", "p95": "412ms", "p99": "800ms"},
            "tpot": {"p50": "12ms", "p95": "21.5ms", "p99": "30ms"},
            "attainment": "99.2%",
            "goodput": "7.32",
            "goodputPerGPU": "1.83",
            "blame": {"prefill": 3},
        },
        "tenants": [
            {"name": "acme", "attainment": "99.2%", "requests": "7", "refused": "0"},
            {"name": "other", "requests": "0", "refused": "0", "outputTokens": "0"},
        ],
        "decision": {
            "time": "2026-01-01T00:00:00Z",
            "prefill": {"from": 2, "to": 3},
            "decode": {"from": 1, "to": 1},
            "reason": "prefill 2 -> 3: predicted TTFT of 700ms is above its bound.",
            "inputs": {"arrivals_rps": "7.4"},
            "limitsHit": ["maxReplicas 3"],
            "alternatives": ["4 prefill: not needed"],
        },
    }
)
