"""The pods that ask for the pool's key, and the order in which a running pool gets it."""

from dataclasses import replace

import pytest

from tandem_contracts.names import KEY_ANNOTATION, KEY_ENV
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import (
    NOW_S,
    after,
    container,
    deployment,
    pool,
    running,
    template,
    world,
)

ROLES = ("prefill", "decode")


def variable(planned, component):
    env = container(planned, component)["env"]
    return next((each for each in env if each["name"] == KEY_ENV), None)


def without_key(live):
    """Return the pool as an operator before this one had made it."""
    for component in (*ROLES, "router"):
        body = deployment(live, component)["spec"]["template"]
        body["metadata"]["annotations"].pop(KEY_ANNOTATION, None)
    for pod in live.pods:
        pod["metadata"]["annotations"].pop(KEY_ANNOTATION, None)
    return live


def routers(live):
    return [pod for pod in live.pods if "router" in pod["metadata"]["name"]]


@pytest.mark.parametrize("component", [*ROLES, "router"])
def test_every_pod_of_a_new_pool_has_the_key_by_reference(component):
    reference = variable(plan(world(), now_s=NOW_S), component)["valueFrom"]["secretKeyRef"]

    assert reference["name"].startswith("tiny-engine-key-")
    assert reference["key"] == "key"


def test_engines_ask_for_it_only_once_no_router_is_without_it():
    live = without_key(running())

    first = plan(live, now_s=NOW_S)

    assert variable(first, "router") is not None
    assert [variable(first, role) for role in ROLES] == [None, None]

    new = routers(running())[0]
    new["metadata"]["name"] = "tiny-router-new"
    rolling = replace(after(live, first), pods=(*live.pods, new))
    assert variable(plan(rolling, now_s=NOW_S), "decode") is None

    others = tuple(pod for pod in live.pods if pod not in routers(live))
    rolled = replace(rolling, pods=(*others, new))
    assert variable(plan(rolled, now_s=NOW_S), "decode") is not None


def test_a_router_that_still_drains_without_it_is_waited_for():
    live = without_key(running())
    for pod in routers(live):
        pod["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:20Z"

    assert variable(plan(live, now_s=NOW_S), "decode") is None


def test_a_router_that_ended_is_not():
    live = without_key(running())
    for pod in routers(live):
        pod["status"]["phase"] = "Failed"

    assert variable(plan(live, now_s=NOW_S), "decode") is not None


def test_engines_that_ask_for_it_go_on_whatever_router_appears():
    live = running()
    for pod in routers(live):
        pod["metadata"]["annotations"].pop(KEY_ANNOTATION)

    planned = plan(live, now_s=NOW_S)

    assert all(variable(planned, role) is not None for role in ROLES)


def test_a_pod_template_cannot_set_another_key():
    env = [{"name": KEY_ENV, "value": "mine"}]
    mine = {"podTemplate": {"spec": {"containers": [{"name": "engine", "env": env}]}}}

    planned = plan(world(pool({"decode": mine})), now_s=NOW_S)

    assert "valueFrom" in variable(planned, "decode")
    accepted = next(each for each in planned.status["conditions"] if each["type"] == "Accepted")
    assert (
        "decode.podTemplate.spec.containers[engine].env[TANDEM_ENGINE_KEY]" in accepted["message"]
    )


def test_with_and_without_it_engines_pair():
    plain = plan(without_key(running()), now_s=NOW_S)
    keyed = plan(world(), now_s=NOW_S)

    revisions = {
        template(planned, role)["metadata"]["labels"]["tandem-inference.io/revision"]
        for planned in (plain, keyed)
        for role in ROLES
    }

    assert len(revisions) == 1
