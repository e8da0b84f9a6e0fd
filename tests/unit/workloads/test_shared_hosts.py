"""The pools that want the same requests of a Gateway."""

import pytest

from tandem_operator.api import parse_pool
from tandem_operator.workloads.checks.shared_hosts import contested
from tests.unit.workloads.cluster import pool

PUBLIC = {"name": "public", "namespace": "gateways"}
HOST = ["llm.example.com"]


def asking(name, *, model="tiny", namespace="serving", **gateway):
    given = {"parentRefs": [PUBLIC], "hostnames": HOST} | gateway
    body = pool({"router": {"gateway": given}, "model": {"name": model}})
    body["metadata"] |= {"name": name, "namespace": namespace}
    return parse_pool(body)


def words(*pools):
    return [what for _, _, what in contested(pools)]


def test_two_pools_on_one_host_want_the_same_requests():
    assert words(asking("a"), asking("b")) == ["the requests of llm.example.com"]


def test_three_pools_on_one_host_are_told_by_twos():
    assert len(words(asking("a"), asking("b"), asking("c"))) == 3


def test_pools_told_apart_by_a_header_share_a_host_but_not_a_model():
    header = {"modelHeader": "X-Gateway-Model-Name"}

    assert words(asking("a", model="one", **header), asking("b", model="two", **header)) == []
    assert words(asking("a", **header), asking("b", modelHeader="x-gateway-model-name")) == [
        "the requests of llm.example.com for model tiny"
    ]
    # Without a header it gets what no other pool asks for.
    assert words(asking("a", **header), asking("b")) == []


@pytest.mark.parametrize(
    "other",
    [
        {"hostnames": ["other.example.com"]},
        {"parentRefs": [{"name": "inner", "namespace": "gateways"}]},
        {"parentRefs": [{"name": "public"}]},
        {"parentRefs": [PUBLIC | {"sectionName": "b"}]},
        {"parentRefs": [PUBLIC | {"port": 81}]},
    ],
)
def test_pools_of_different_hosts_gateways_or_listeners_do_not_meet(other):
    one = {"parentRefs": [PUBLIC | {"sectionName": "a", "port": 80}]}

    assert words(asking("a", **one), asking("b", **other)) == []


def test_a_gateway_without_a_namespace_is_that_of_the_pool():
    own = {"parentRefs": [{"name": "public"}]}

    assert words(asking("a", namespace="gateways", **own), asking("b")) != []


def test_the_same_pool_twice_and_pools_without_a_gateway_are_no_matter():
    assert words(asking("a"), asking("a"), parse_pool(pool())) == []
