"""An HTTPRoute that cannot be written keeps nothing else from its pool."""

import pytest

from tests.unit.loop.store import owned_by
from tests.unit.workloads.cluster import pool

GATEWAY = {"parentRefs": [{"name": "public"}], "hostnames": ["llm.example.com"]}


@pytest.fixture
def routed(store):
    store.kinds["inferencepools"]["tiny"] = pool({"router": {"gateway": GATEWAY}})
    store.served = {"httproutes"}
    store.restart(gateway_routes=True)
    return store


def refusal(store):
    """Return the pool's sentence on its route; all else is in force."""
    assert store.condition("Accepted")["status"] == "True"
    assert "tiny-memory" in store.kinds["configmaps"]
    assert ("configmaps", "tiny-memory") in store.tried
    told = store.condition("RouteAccepted")
    assert (told["status"], told["reason"]) == ("False", "RouteRefused")
    return told["message"]


async def test_a_route_of_a_deleted_pool_that_stays_is_told_and_later_replaced(routed):
    owner = owned_by("InferencePool", "tiny", "of-the-pool-before")
    owner["ownerReferences"][0]["apiVersion"] = "tandem-inference.io/v1alpha1"
    routed.kinds["httproutes"]["tiny-router"] = {"metadata": {"name": "tiny-router", **owner}}

    await routed.passes(2)

    message = refusal(routed)
    assert "HTTPRoute tiny-router of a deleted pool still exists" in message
    assert "finalizers" in message

    del routed.kinds["httproutes"]["tiny-router"]
    await routed.passes(2)

    assert routed.kinds["httproutes"]["tiny-router"]["spec"]["hostnames"] == ["llm.example.com"]
    assert routed.condition("RouteAccepted")["reason"] == "Pending"


async def test_a_webhook_that_is_down_is_quoted(routed):
    down = 'failed calling webhook "validate.gateway.example.com": connection refused'
    routed.refusals["httproutes", "tiny-router"] = (500, down)

    await routed.passes(2)

    assert refusal(routed) == f"The API server refused HTTPRoute tiny-router: {down}"


async def test_an_api_server_that_cuts_the_connection_is_told(routed):
    routed.cuts = ("httproutes", "tiny-router")

    await routed.passes(2)

    assert "did not answer for HTTPRoute tiny-router" in refusal(routed)
