"""The HTTPRoute of a pool: what it routes, when there is one, and what its Gateways say of it."""

from dataclasses import replace

import pytest

from tandem_operator.workloads.pass_plan import WriteOutcome, conclude, plan
from tests.unit.workloads.cluster import (
    INSTALLATION,
    NOW_S,
    after,
    condition,
    pool,
    running,
    status_of,
    world,
)

ALLOWED = replace(INSTALLATION, gateway_routes=True, serves_routes=True)
PUBLIC = {"name": "public", "namespace": "gateways"}
GATEWAY = {"parentRefs": [PUBLIC], "hostnames": ["llm.example.com"]}


def asking(**changes):
    return {"router": {"gateway": GATEWAY | changes}}


def route(*changes, installation=ALLOWED):
    return plan(world(pool(*changes), installation=installation), now_s=NOW_S).route


def said(kind, status, *, generation=1, reason=None, message="told"):
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "observedGeneration": generation,
    }


GOOD = (said("Accepted", "True"), said("ResolvedRefs", "True"))


def answered(*conditions, parent=PUBLIC, gateway=None, generation=1, also=()):
    """Return a running pool whose route has these conditions of one Gateway."""
    live = replace(running(asking(**(gateway or {}))), installation=ALLOWED)
    made = plan(live, now_s=NOW_S).route
    own = {
        **made,
        "metadata": made["metadata"] | {"generation": generation},
        "status": {
            "parents": [
                {"controllerName": "c", "parentRef": parent, "conditions": list(conditions)},
                *also,
            ]
        },
    }
    return replace(live, children=(*live.children, own))


def told(live):
    found = condition(status_of(live), "RouteAccepted")
    return found["status"], found["reason"], found["message"]


def test_routes_the_api_of_the_router_without_a_time_limit_and_nothing_else():
    made = route(asking())

    assert made["metadata"]["ownerReferences"][0]["uid"] == "8f0c"
    assert made["metadata"]["name"] == "tiny-router"
    assert made["spec"] == {
        "parentRefs": [PUBLIC],
        "hostnames": ["llm.example.com"],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                "backendRefs": [{"name": "tiny-router", "port": 80}],
                "timeouts": {"request": "0s"},
            }
        ],
    }


def test_a_listener_and_its_port_are_named_as_they_are_given():
    parents = [{"name": "public", "sectionName": "https", "port": 8443}]

    made = route(asking(parentRefs=parents, hostnames=[]))

    assert made["spec"]["parentRefs"] == parents
    assert "hostnames" not in made["spec"]


def test_with_a_header_only_requests_for_the_pools_own_models_match():
    model = {"model": {"aliases": ["small"]}}

    made = route(asking(modelHeader="X-Gateway-Model-Name"), model)

    headers = [each["headers"] for each in made["spec"]["rules"][0]["matches"]]
    assert headers == [
        [{"type": "Exact", "name": "X-Gateway-Model-Name", "value": name}]
        for name in ("tiny", "small")
    ]
    assert {each["path"]["value"] for each in made["spec"]["rules"][0]["matches"]} == {"/v1"}


@pytest.mark.parametrize(
    ("changes", "installation"),
    [
        ({}, ALLOWED),
        (asking(), replace(ALLOWED, gateway_routes=False)),
        (asking(), replace(ALLOWED, serves_routes=False)),
    ],
    ids=["not asked for", "not allowed", "not served"],
)
def test_there_is_no_route_unless_asked_for_allowed_and_served(changes, installation):
    planned = plan(world(pool(changes), installation=installation), now_s=NOW_S)

    assert planned.route is None
    assert (("HTTPRoute", "tiny-router") in planned.keep) == bool(changes)
    assert planned.decision is not None


def test_a_route_is_kept_while_it_is_wanted_and_stands_apart_from_what_must_be_applied():
    planned = plan(world(pool(asking()), installation=ALLOWED), now_s=NOW_S)

    assert ("HTTPRoute", "tiny-router") in planned.keep
    assert "HTTPRoute" not in {each["kind"] for each in planned.children}


def test_to_ask_for_a_gateway_changes_no_other_child_and_so_restarts_nothing():
    asked = plan(world(pool(asking()), installation=ALLOWED), now_s=NOW_S)

    assert asked.children == plan(world(pool(), installation=ALLOWED), now_s=NOW_S).children


def test_a_pool_without_a_gateway_says_nothing_of_routes():
    status = status_of(replace(running(), installation=ALLOWED))

    assert "RouteAccepted" not in {each["type"] for each in status["conditions"]}
    assert "hostnames" not in status


def test_a_gateway_that_takes_the_route_shows_its_hosts():
    live = answered(*GOOD)

    assert told(live)[:2] == ("True", "Accepted")
    assert status_of(live)["hostnames"] == ["llm.example.com"]
    assert status_of(live)["endpoint"] == "http://tiny-router.serving.svc"


@pytest.mark.parametrize(
    ("conditions", "expected", "words"),
    [
        (
            (said("Accepted", "False", reason="NotAllowedByListeners", message="No."), GOOD[1]),
            ("False", "NotAllowedByListeners"),
            "Gateway gateways/public: Accepted is False: No.",
        ),
        (
            (GOOD[0], said("ResolvedRefs", "False", reason="BackendNotFound")),
            ("False", "BackendNotFound"),
            "ResolvedRefs is False: told.",
        ),
        ((GOOD[0],), ("Unknown", "Pending"), "gateways/public has not answered"),
        ((said("Accepted", "Unknown", reason="Pending"), GOOD[1]), ("Unknown", "Pending"), "told"),
    ],
    ids=["not accepted", "no backend", "half an answer", "undecided"],
)
def test_what_a_gateway_says_against_the_route_is_told_in_its_words(conditions, expected, words):
    live = answered(*conditions)

    assert told(live)[:2] == expected
    assert words in told(live)[2]
    assert "hostnames" not in status_of(live)


def test_an_answer_to_the_route_as_it_was_before_an_edit_counts_for_nothing():
    assert told(answered(*GOOD, generation=2))[:2] == ("Unknown", "Pending")


def test_one_gateway_of_two_that_refuses_is_named_and_the_other_still_serves():
    inner = {"name": "inner", "sectionName": "http"}
    refusal = said("Accepted", "False", reason="NoMatchingParent", message="no such listener")
    live = answered(
        *GOOD,
        gateway={"parentRefs": [PUBLIC, inner]},
        also=[
            {
                "controllerName": "c",
                "parentRef": inner | {"namespace": "serving"},
                "conditions": [refusal],
            }
        ],
    )

    assert told(live)[:2] == ("False", "NoMatchingParent")
    assert "serving/inner" in told(live)[2]
    assert "gateways/public" not in told(live)[2]
    assert status_of(live)["hostnames"] == ["llm.example.com"]


@pytest.mark.parametrize(
    "parent", [{"name": "public"}, PUBLIC | {"sectionName": "https"}, PUBLIC | {"kind": "Service"}]
)
def test_the_answer_of_another_parent_is_none_for_this_one(parent):
    status, _, message = told(answered(*GOOD, parent=parent))

    assert status == "Unknown"
    assert "No controller answers for Gateway gateways/public" in message


@pytest.mark.parametrize(
    ("installation", "reason", "works"),
    [
        (replace(ALLOWED, gateway_routes=False), "NotAllowed", "pools.gatewayRoutes"),
        (replace(ALLOWED, serves_routes=False), "GatewayAPIMissing", "Gateway API 1.2"),
    ],
)
def test_a_route_that_cannot_be_is_said_and_the_pool_serves_on(installation, reason, works):
    live = replace(running(asking()), installation=installation)

    assert told(live)[:2] == ("False", reason)
    assert works in told(live)[2]
    assert condition(status_of(live), "Ready")["status"] == "True"
    assert condition(status_of(live), "Accepted")["reason"] == "Valid"


def test_a_refused_route_changes_one_condition_and_no_other():
    live = answered(*GOOD)
    planned = plan(live, now_s=NOW_S)
    why = "The API server refused HTTPRoute tiny-router: no."

    concluded = conclude(planned, WriteOutcome(route_fault=why), world=live, now_s=NOW_S)

    found = {each["type"]: each for each in concluded.status["conditions"]}
    assert (found["RouteAccepted"]["reason"], found["RouteAccepted"]["message"]) == (
        "RouteRefused",
        why,
    )
    assert found["Accepted"]["status"] == found["Ready"]["status"] == "True"
    assert concluded.replicas == planned.replicas


def test_a_route_that_was_just_written_waits_for_an_answer():
    live = answered(*GOOD)
    planned = plan(live, now_s=NOW_S)

    concluded = conclude(planned, WriteOutcome(route_written=True), world=live, now_s=NOW_S)

    assert condition(concluded.status, "RouteAccepted")["status"] == "Unknown"


def test_a_pool_with_a_route_at_rest_has_nothing_new_to_say():
    live = answered(*GOOD)
    planned = plan(live, now_s=NOW_S)
    route_of = [each for each in live.children if each["kind"] == "HTTPRoute"]
    settled = after(live, planned)
    settled = replace(settled, children=(*settled.children, *route_of))

    assert plan(settled, now_s=NOW_S + 5).status is None


@pytest.mark.parametrize(
    ("wrong", "field", "works"),
    [
        ({"parentRefs": [{"name": "gateways/public"}]}, "parentRefs[0].name", "public"),
        (
            {"parentRefs": [PUBLIC, PUBLIC | {"sectionName": "HTTPS"}]},
            "parentRefs[1].sectionName",
            "https",
        ),
        (
            {"parentRefs": [PUBLIC | {"namespace": "my gateways"}]},
            "parentRefs[0].namespace",
            "gateways",
        ),
        ({"hostnames": ["llm.example.com:443"]}, "hostnames[0]", "llm.example.com"),
        ({"hostnames": ["a.example.com", "llm.*.com"]}, "hostnames[1]", "llm.example.com"),
        ({"hostnames": ["LLM.example.com"]}, "hostnames[0]", "llm.example.com"),
        ({"modelHeader": "model:"}, "modelHeader", "X-Gateway-Model-Name"),
    ],
)
def test_a_field_that_no_route_can_hold_is_named_with_one_that_works(wrong, field, works):
    live = replace(running(asking(**wrong)), installation=ALLOWED)
    planned = plan(live, now_s=NOW_S)

    assert planned.route is None
    assert planned.decision is not None
    assert told(live)[:2] == ("False", "RouteInvalid")
    assert f"router.gateway.{field} must" in told(live)[2]
    assert works in told(live)[2]
