"""A typo in a pod template, which the CRD lets by, is told with the field that was meant."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.api import parse_pool
from tandem_operator.core.role import Role
from tandem_operator.workloads.builders.children import templates_of
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.checks.pod_schema import (
    FILE,
    MOST_TOLD,
    metadata_faults,
    pod_faults,
    without_effect,
)
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.objection import Objection
from tandem_operator.workloads.pass_plan import conclude, plan
from tandem_operator.workloads.pool_names import PoolName
from tests.unit.workloads.bad_templates import BAD_TEMPLATES, GOOD_TEMPLATES
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, running, world
from tests.unit.workloads.test_restrictions import accepted

SAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "samples").glob("*.yaml"))
NO_SUCH = r"Kubernetes 1\.\d+ has no such field; "


def told(spec):
    return [each.sentence for each in pod_faults(spec, path="p")]


def engine(**container):
    return {"containers": [{"name": "engine", **container}]}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"nodeSelectr": {"a": "b"}}, f"p.nodeSelectr: {NO_SUCH}did you mean nodeSelector?"),
        ({"container": []}, f"p.container: {NO_SUCH}did you mean containers?"),
        ({"tolerations": [{"effects": "x"}]}, r"p.tolerations\[0\].effects: .* mean effect?"),
        (engine(volumeMount=[]), r"p.containers\[0\].volumeMount: .* did you mean volumeMounts?"),
        (engine(nodeSelector={}), r"containers\[0\].nodeSelector: .*; write it in p$"),
        (engine(privileged=True), r"write it in p.containers\[0\].securityContext$"),
        ({"command": ["x"]}, r"write it in p.containers\[0\] or p.initContainers\[0\]$"),
        ({"gadget": 1}, f"p.gadget: {NO_SUCH}check its spelling or remove it"),
        ({"nodeSelector": ["zone"]}, "p.nodeSelector: must be an object, with fields; got a list"),
        ({"nodeSelector": {"gpu": True}}, r"p.nodeSelector\[gpu\]: must be a string, in quotes"),
        ({"tolerations": {}}, "p.tolerations: must be a list; got an object"),
        ({"hostNetwork": "yes"}, 'p.hostNetwork: must be true or false; got "yes"'),
        ({"priority": "high"}, 'p.priority: must be a whole number, such as 4; got "high"'),
        (engine(env=[{"name": "A", "value": 8}]), r"env\[0\].value: must be a string, in quotes"),
        (engine(resources={"limits": {"cpu": True}}), r"limits\[cpu\]: must be a quantity"),
        ({"containers": [None]}, r"p.containers\[0\]: must not be null; remove the item"),
        ([], "p: must be an object, with fields; got a list"),
    ],
)
def test_a_fault_of_a_pod_is_one_sentence_with_its_way(spec, sentence):
    [said] = told(spec)

    assert re.search(sentence, said), said


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"securityContext": None, "nodeSelector": {"a": None}},
        engine(resources={"limits": {"cpu": 2, "memory": "2Gi"}}, env=None),
        engine(readinessProbe={"httpGet": {"port": "http", "path": "/"}}),
        engine(livenessProbe={"httpGet": {"port": 80}}, ports=[{"containerPort": 80.0}]),
        *(each.template.get("spec") for each in BAD_TEMPLATES if each.name != "volumes"),
        *(each.get("spec") for each in GOOD_TEMPLATES.values()),
    ],
    ids=str,
)
def test_a_pod_that_kubernetes_can_hold_has_no_fault(spec):
    assert told(spec) == []


def test_metadata_is_held_to_its_fields_as_well():
    metadata = {"name": "a", "lables": {}, "labels": {"on": True}, "creationTimestamp": None}

    said = [each.sentence for each in metadata_faults(metadata, path="metadata")]

    assert [each.partition(": ")[0] for each in said] == ["metadata.lables", "metadata.labels[on]"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_every_field_that_tandem_itself_writes_is_known(sample):
    spec = parse_pool(yaml.safe_load(sample.read_text()))
    templates = templates_of(
        spec,
        name=PoolName("serving", "tiny", "uid"),
        installation=INSTALLATION,
        with_key=frozenset(Role),
    )

    for template in templates.values():
        assert told(template.body["spec"]) == []
        assert not list(metadata_faults(template.body["metadata"], path="metadata"))


def test_the_file_of_fields_stays_small_and_holds_what_it_points_to():
    text = (files("tandem_operator") / FILE).read_text()
    types = json.loads(text)["types"]
    named = {kind.rstrip("[]{}") for fields in types.values() for kind in fields.values()}

    assert len(text) < 60_000
    assert named - types.keys() == {"text", "number", "flag", "amount", "any"}


REFUSAL = "Deployment tiny-decode: .spec.template.spec.nodeSelectr: field not declared in schema"


def edited(template):
    live = running()
    edit = pool({"decode": {"podTemplate": {"spec": template}}}, status=live.pool["status"])
    return world(edit, children=live.children, pods=live.pods)


def test_a_refusal_by_the_api_server_begins_with_the_field_of_the_pool_and_what_was_meant():
    seen = edited({"nodeSelectr": {"zone": "a"}})
    planned = plan(seen, now_s=NOW_S)

    done = conclude(planned, WriteOutcome(refused=REFUSAL), world=seen, now_s=NOW_S)

    found = accepted(done)
    assert (found["status"], found["reason"]) == ("False", "ChildRefused")
    assert "decode.podTemplate.spec.nodeSelectr: Kubernetes" in found["message"]
    assert f"did you mean nodeSelector? {REFUSAL}" in found["message"]


def test_a_refusal_for_another_cause_says_nothing_of_a_field_that_may_be_newer_than_tandem():
    seen = edited({"gadget": "new"})
    quota = "Deployment tiny-decode: pods is forbidden: exceeded quota"

    done = conclude(plan(seen, now_s=NOW_S), WriteOutcome(refused=quota), world=seen, now_s=NOW_S)

    assert accepted(done)["message"].endswith(f"changed nothing: {quota}")


def test_of_a_thousand_typos_a_status_tells_the_first_few():
    seen = edited({f"nodeSelector{number}": {} for number in range(1000)})
    refusal = "Deployment tiny-decode: .spec.template.spec.nodeSelector0: field not declared"

    done = conclude(plan(seen, now_s=NOW_S), WriteOutcome(refused=refusal), world=seen, now_s=NOW_S)

    assert accepted(done)["message"].count("did you mean nodeSelector?") == MOST_TOLD
    assert accepted(done)["message"].endswith(refusal)


def test_a_template_of_any_depth_holds_up_no_pass():
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"x": deep}
    fault = Objection("decode.podTemplate.spec.gadget", "gadget: no such field")

    assert "gadget" in without_effect([fault], [Template({"spec": deep}, hash="a", overridden=())])


def test_a_field_that_the_api_server_took_is_in_force_though_tandem_does_not_know_it():
    found = accepted(plan(edited({"gadget": "new"}), now_s=NOW_S))

    assert (found["status"], found["reason"]) == ("True", "Valid")


def test_a_misspelt_null_changes_no_pod_and_is_told_while_the_pool_runs_on():
    planned = plan(edited({"securityContxt": None}), now_s=NOW_S)

    found = accepted(planned)
    assert (found["status"], found["reason"]) == ("True", "FieldsUnknown")
    assert "no effect. decode.podTemplate.spec.securityContxt: Kubernetes" in found["message"]
    assert found["message"].endswith("did you mean securityContext?")
    assert planned.children
    assert "FieldsUnknown" in {event.reason for event in planned.events}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["containers", "env", "name", "volumes", "emptyDir", "nodeSelectr"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(ANYTHING)
def test_a_template_of_any_shape_can_be_looked_at(spec):
    assert all(each.sentence.startswith(f"{each.field}: ") for each in pod_faults(spec, path="p"))
