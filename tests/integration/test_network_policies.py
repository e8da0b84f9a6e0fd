"""The pools' NetworkPolicies, judged by a policy engine that is not ours, and by the API server."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

from e2e.cluster.controlplane import ControlPlane
from e2e.cluster.gobuild import POLICIES, build, go_problem, is_built
from tests.unit.workloads.reach import Peer
from tests.unit.workloads.reachable import CASES, DECODE, OUTSIDE, TENANT, Case
from tests.unit.workloads.test_network import HUB, policies

DOWNLOADS = (
    Case(DECODE, OUTSIDE, 443, allowed=True),
    Case(DECODE, OUTSIDE, 5600, allowed=False),
    Case(DECODE, TENANT, 8000, allowed=False),
)


@pytest.fixture(scope="module")
def engine() -> str:
    if not is_built(POLICIES) and (problem := go_problem()):
        pytest.skip(problem)
    return str(build(POLICIES) / "reach")


def answers(engine: str, made: list[Any], cases: Iterable[Case]) -> list[bool]:
    questions = [
        {
            "source": peer(each.source),
            "target": peer(each.target),
            "port": each.port,
            "protocol": each.protocol,
        }
        for each in cases
    ]
    asked = json.dumps({"policies": made, "questions": questions})
    done = subprocess.run(
        [engine], input=asked, capture_output=True, text=True, check=True, timeout=60
    )
    found: list[bool] = json.loads(done.stdout)
    return found


def peer(one: Peer) -> dict[str, Any]:
    return {
        "ip": one.ip,
        "namespace": one.namespace,
        "namespaceLabels": dict(one.namespace_labels),
        "labels": dict(one.labels),
    }


@pytest.mark.parametrize(
    ("made", "cases"), [(policies(), CASES), (policies(HUB), DOWNLOADS)], ids=["image", "hub"]
)
def test_a_policy_engine_allows_the_same_connections(
    engine: str, made: list[Any], cases: tuple[Case, ...]
) -> None:
    found = answers(engine, made, cases)

    differing = [
        str(case)
        for case, is_allowed in zip(cases, found, strict=True)
        if is_allowed != case.allowed
    ]
    assert differing == []


def test_without_the_policies_every_pod_reaches_every_port(engine: str) -> None:
    assert all(answers(engine, [], CASES))


def test_the_api_server_takes_them_as_they_are(control_plane: ControlPlane, namespace: str) -> None:
    for each in policies(HUB):
        each["metadata"] |= {"namespace": namespace, "ownerReferences": []}
        words = ("apply", "--server-side", "--validate=strict", "-f", "-")
        control_plane.run_kubectl(*words, stdin=json.dumps(each))
        path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        stored = control_plane.request("GET", f"{path}/{each['metadata']['name']}")
        assert stored["spec"] == each["spec"]
