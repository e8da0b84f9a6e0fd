"""The operator's limits on pools, compared with the refusals of the API server itself."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from e2e.cluster.controlplane import ControlPlane
from manifests.generate import ROOT
from tandem_operator.workloads.pass_plan import plan
from tests.integration.charts import ensure_namespace, of_kind, render
from tests.unit.workloads.bad_templates import BAD_TEMPLATES, GOOD_TEMPLATES, BadTemplate
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, template, world

NAMESPACE = "policed"
POOLS = f"/apis/tandem-inference.io/v1alpha1/namespaces/{NAMESPACE}/inferencepools"
DRY_RUN = "?dryRun=All&fieldValidation=Strict"
POLICY = ("--set", f"pools.admissionPolicy=true,watchNamespaces={{{NAMESPACE}}}")
# Naming the account that a component has anyway is no harm, but no use either.
NOT_IN_THE_POLICY = {"own account"}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """An API server with the CRD, the policy in force in one namespace, and accounts there."""
    control_plane.install_definition(ROOT / "crds" / "inferencepools.tandem-inference.io.yaml")
    run = control_plane.run_kubectl
    ensure_namespace(control_plane, NAMESPACE)
    for name in ("tiny-prefill", "tiny-decode", "admin"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        run("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(account))
    objects = render(*POLICY)
    policies = [
        *of_kind(objects, "ValidatingAdmissionPolicy"),
        *of_kind(objects, "ValidatingAdmissionPolicyBinding"),
    ]
    for each in policies:
        run("apply", "-f", "-", stdin=json.dumps(each))
    deadline = time.monotonic() + 60
    while refusal(control_plane, with_template({"spec": {"hostNetwork": True}})) is None:
        assert time.monotonic() < deadline, "the policy is not in force"
        time.sleep(0.2)
    yield control_plane
    for each in reversed(policies):
        run("delete", each["kind"], each["metadata"]["name"])


def with_template(podtemplate: Mapping[str, Any]) -> dict[str, Any]:
    return namespaced(pool({"decode": {"podTemplate": podtemplate}}))


def namespaced(stored: dict[str, Any]) -> dict[str, Any]:
    stored["metadata"] = {"name": "tiny", "namespace": NAMESPACE}
    return stored


def refusal(plane: ControlPlane, body: Mapping[str, Any], path: str = POOLS) -> str | None:
    """Return the API server's objection to it, `None` if it takes it."""
    try:
        plane.request("POST", path + DRY_RUN, body)
    except RuntimeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("bad", BAD_TEMPLATES, ids=lambda bad: bad.name)
def test_the_policy_refuses_what_the_operator_refuses(plane: ControlPlane, bad: BadTemplate):
    said = refusal(plane, with_template(bad.template))

    assert said is not None
    assert "denied request" in said
    assert "podTemplate" in said


@pytest.mark.parametrize("name", sorted(GOOD_TEMPLATES.keys() - NOT_IN_THE_POLICY))
def test_the_policy_takes_what_the_operator_takes(plane: ControlPlane, name: str):
    assert refusal(plane, with_template(GOOD_TEMPLATES[name])) is None


def pod_of(podtemplate: Mapping[str, Any]) -> dict[str, Any]:
    """Return a decode pod of an installation that lets everything by."""
    opened = replace(INSTALLATION, any_pod_template=True)
    stored = pool({"decode": {"podTemplate": podtemplate}})
    made = template(plan(world(stored, installation=opened), now_s=NOW_S), "decode")
    made["metadata"]["name"] = "tiny-decode-0"
    return {"apiVersion": "v1", "kind": "Pod"} | made


@pytest.mark.parametrize(
    "bad", [bad for bad in BAD_TEMPLATES if bad.restricted], ids=lambda bad: bad.name
)
def test_what_is_refused_would_break_the_restricted_standard(plane: ControlPlane, bad: BadTemplate):
    said = refusal(plane, pod_of(bad.template), f"/api/v1/namespaces/{NAMESPACE}/pods")

    assert said is not None
    # Some are no valid pods at all once Tandem's defaults are below them.
    assert "violates PodSecurity" in said or " 422 " in said


@pytest.mark.parametrize("name", GOOD_TEMPLATES)
def test_what_is_taken_keeps_the_restricted_standard(plane: ControlPlane, name: str):
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    said = refusal(plane, pod_of(GOOD_TEMPLATES[name]), pods)

    assert said is None


@pytest.mark.parametrize(
    ("argument", "taken"),
    [
        ("--max-num-batched-tokens=4096", True),
        ("--no-enable-chunked-prefill", True),
        ("--structured-outputs-config.backend=xgrammar", True),
        ("--gpu_memory_utilization=0.9", True),
        ("--trust-remote-code", False),
        ("--structured-outputs-config.reasoning_parser_plugin=/x.py", False),
        ("--something-new=1", False),
    ],
)
def test_the_policy_knows_the_options_of_vllm(plane: ControlPlane, argument: str, taken: bool):
    said = refusal(plane, namespaced(pool({"engine": {"extraArgs": [argument]}})))

    assert (said is None) == taken
    assert said is None or argument.partition("=")[0] in said


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_policy_reads_the_options_of_one_role(plane: ControlPlane, role: str):
    def said(argument: str) -> str | None:
        own = {role: {"engine": {"extraArgs": [argument]}}}
        return refusal(plane, namespaced(pool(own)))

    assert said("--max-num-batched-tokens=4096") is None
    assert "--trust-remote-code" in (said("--trust-remote-code") or "")


def test_a_user_cannot_make_a_pool_read_a_secret_that_the_user_may_not_read(plane: ControlPlane):
    rules = [{"apiGroups": ["tandem-inference.io"], "resources": ["*"], "verbs": ["*"]}]
    grant(plane, "bob", rules)
    grant(plane, "eve", [*rules, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
    hub = {"repo": "acme/llama", "tokenSecretRef": {"name": "hub"}}
    bucket = {"uri": "s3://models/llama", "credentialsSecretRef": {"name": "keys"}}

    def apply(user: str, source: dict[str, Any]) -> str:
        named = namespaced(pool({"model": {"source": source}}))
        named["spec"]["model"]["source"] = source
        words = ("apply", "--dry-run=server", f"--as={user}", "-f", "-")
        return plane.run_kubectl(*words, stdin=json.dumps(named))

    for source in ({"huggingFace": hub}, bucket):
        assert "created" in apply("eve", source)
        with pytest.raises(RuntimeError, match="names a Secret that you may not read"):
            apply("bob", source)


def test_a_user_cannot_have_a_token_sent_that_the_user_may_not_read(plane: ControlPlane):
    rules = [{"apiGroups": ["tandem-inference.io"], "resources": ["*"], "verbs": ["*"]}]
    grant(plane, "bob", rules)
    grant(plane, "eve", [*rules, {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}])
    asked = {"url": "https://prometheus:9090", "tokenSecretRef": {"name": "reader"}}
    named = namespaced(pool({"metrics": {"prometheus": asked}}))
    named["metadata"]["name"] = "token-sender"

    def apply(user: str, *more: str) -> str:
        words = ("apply", *more, f"--as={user}", "-f", "-")
        return plane.run_kubectl(*words, stdin=json.dumps(named))

    with pytest.raises(RuntimeError, match="names a Secret that you may not read"):
        apply("bob", "--dry-run=server")
    assert "created" in apply("eve")
    named["spec"]["scaling"] = {"mode": "Recommend"}
    assert "configured" in apply("bob", "--dry-run=server")
    named["spec"]["metrics"]["prometheus"]["url"] = "https://bobs.example.com"
    with pytest.raises(RuntimeError, match="names a Secret that you may not read"):
        apply("bob", "--dry-run=server")


def grant(plane: ControlPlane, user: str, rules: list[dict[str, Any]]) -> None:
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": user, "namespace": NAMESPACE}}
    subject = {"kind": "User", "name": user, "apiGroup": group}
    role = {"kind": "Role", "name": user, "apiGroup": group}
    for body in (
        head | {"kind": "Role", "rules": rules},
        head | {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    ):
        plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(body))
