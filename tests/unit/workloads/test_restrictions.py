"""A user who may only create pools cannot do through them what takes the right to create pods."""

from dataclasses import replace

import pytest

from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.bad_templates import BAD_TEMPLATES, GOOD_TEMPLATES, BadTemplate
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, running, template, world

HUB = {
    "repo": "acme/llama",
    "tokenSecretRef": {"name": "hub", "key": "token"},
}


def accepted(planned):
    return next(each for each in planned.status["conditions"] if each["type"] == "Accepted")


@pytest.mark.parametrize("bad", BAD_TEMPLATES, ids=lambda bad: bad.name)
def test_a_template_that_reaches_beyond_the_pool_is_refused_and_nothing_changes(bad: BadTemplate):
    live = running()
    edit = pool({"decode": {"podTemplate": bad.template}}, status=live.pool["status"])

    planned = plan(replace(live, pool=edit), now_s=NOW_S)

    assert accepted(planned)["status"] == "False"
    assert f"decode.podTemplate.{bad.field} is refused, since" in accepted(planned)["message"]
    assert "pools.allowAnyPodTemplate: true" in accepted(planned)["message"]
    assert (planned.children, planned.keep) == ((), None)


@pytest.mark.parametrize("component", ["prefill", "decode", "router"])
def test_every_component_is_held_to_it(component):
    edit = pool({component: {"podTemplate": {"spec": {"hostNetwork": True}}}})

    planned = plan(world(edit), now_s=NOW_S)

    assert f"{component}.podTemplate.spec.hostNetwork" in accepted(planned)["message"]


@pytest.mark.parametrize("name", GOOD_TEMPLATES)
def test_what_stays_within_the_pool_is_taken(name):
    edit = pool({"decode": {"podTemplate": GOOD_TEMPLATES[name]}})

    assert accepted(plan(world(edit), now_s=NOW_S))["status"] == "True"


@pytest.mark.parametrize("bad", BAD_TEMPLATES, ids=lambda bad: bad.name)
def test_an_installation_may_open_it(bad: BadTemplate):
    opened = replace(INSTALLATION, any_pod_template=True)
    edit = pool({"decode": {"podTemplate": bad.template}})

    planned = plan(world(edit, installation=opened), now_s=NOW_S)

    assert accepted(planned)["status"] == "True"


def test_the_access_token_that_the_pool_names_may_be_read_by_its_engines():
    source = {"model": {"source": {"image": None, "huggingFace": HUB}}}
    reference = {"secretKeyRef": {"name": "hub", "key": "token"}}
    env = [{"name": "HUGGING_FACE_HUB_TOKEN", "valueFrom": reference}]
    engine = {"podTemplate": {"spec": {"containers": [{"name": "engine", "env": env}]}}}
    router = {"podTemplate": {"spec": {"containers": [{"name": "router", "env": env}]}}}

    assert accepted(plan(world(pool(source, {"decode": engine})), now_s=NOW_S))["status"] == "True"
    refused = accepted(plan(world(pool(source, {"router": router})), now_s=NOW_S))
    assert "router.podTemplate.spec.containers[router].env" in refused["message"]


def test_a_sidecar_is_contained_by_default_and_may_be_more_so():
    mine = {"name": "logs", "image": "logs:1", "securityContext": {"readOnlyRootFilesystem": True}}
    edit = pool({"decode": {"podTemplate": {"spec": {"containers": [mine]}}}})

    planned = plan(world(edit), now_s=NOW_S)

    sidecar = template(planned, "decode")["spec"]["containers"][1]
    assert sidecar["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


ODD = (
    {"volumes": "x"},
    {"volumes": [None, 3, {"name": {}, "hostPath": 1}]},
    {"containers": [{"name": "engine", "securityContext": 7, "env": [7], "ports": {"a": 1}}]},
    {"containers": [{"name": "engine", "securityContext": {"capabilities": {"add": {"a": 1}}}}]},
    {"containers": [{"name": "engine", "env": [{"valueFrom": {"secretKeyRef": {"name": []}}}]}]},
    {"containers": [{"name": "engine", "envFrom": 7, "lifecycle": [1], "livenessProbe": "x"}]},
    {"securityContext": {"seLinuxOptions": {"type": {}}, "sysctls": [{"name": []}]}},
    {"securityContext": {"seccompProfile": {"type": []}, "windowsOptions": 1}},
)


@pytest.mark.parametrize("spec", ODD, ids=str)
def test_a_template_of_any_shape_is_answered(spec):
    planned = plan(world(pool({"decode": {"podTemplate": {"spec": spec}}})), now_s=NOW_S)

    assert accepted(planned)["status"] in ("True", "False")
