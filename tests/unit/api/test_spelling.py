"""A name that no field has is told with the field that was meant, or where such a field is."""

import pytest

from tandem_operator.api import InvalidPoolError, parse_pool
from tandem_operator.api.spelling import advice, nearest
from tandem_operator.api.stored import without_nulls
from tests.unit.api.bad_pools import GOOD, merged


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nodeSelectr", "nodeSelector"),
        ("container", "containers"),
        ("node_selector", "nodeSelector"),
        ("NODESELECTOR", "nodeSelector"),
        ("tolerate", None),
    ],
)
def test_a_typo_is_near_one_name_and_another_word_is_near_none(name, meant):
    assert nearest(name, ("containers", "nodeSelector", "tolerations")) == meant


def test_a_name_with_many_places_is_told_none_of_them():
    assert advice("x", known=(), places="abcd") == "check its spelling or remove it"
    assert advice("x", known=(), places="ab") == "write it in a or b"


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        ({"prefill": {"minReplica": 2}}, "spec.prefill.minReplica: .*; did you mean minReplicas?"),
        ({"prefill": {"min_replicas": 2}}, "did you mean minReplicas?"),
        ({"gpuBudget": 8}, "spec.gpuBudget: .* no such field; write it in spec.scaling$"),
        (
            {"maxReplicas": 8},
            "write it in spec.prefill or spec.decode or spec.router$",
        ),
        (
            {"placement": {"topologySpread": [{"topologyKey": "zone", "maxSkews": 1}]}},
            r"topologySpread\[0\].maxSkews: .* did you mean maxSkew?",
        ),
        ({"foo": 1}, "spec.foo: .*; check its spelling or remove it"),
    ],
)
def test_an_unknown_field_of_a_pool_is_told_with_what_to_write(patch, sentence):
    with pytest.raises(InvalidPoolError, match=sentence):
        parse_pool(merged(GOOD, {"spec": patch}), strict=True)


def test_a_null_is_a_field_that_was_left_out_as_the_api_server_takes_it():
    empty = {**GOOD["spec"], "engine": None, "scaling": {"gpuBudget": None}}

    stored = without_nulls({**GOOD, "spec": empty})

    assert "engine" not in stored["spec"]
    assert stored["spec"]["scaling"] == {}


def test_a_null_in_a_pod_template_stays_since_it_takes_a_default_away():
    taken_away = {"podTemplate": {"spec": {"securityContext": None}, "metadata": None}}
    obj = merged(GOOD, {})
    obj["spec"]["decode"] |= taken_away

    stored = without_nulls(obj)

    assert stored["spec"]["decode"]["podTemplate"] == {"spec": {"securityContext": None}}
