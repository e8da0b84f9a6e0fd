"""The effects of `spec.slo.classes`: bounds to size by, settings of routers, status."""

from dataclasses import replace

import pytest

from tandem_operator.api import parse_pool
from tandem_operator.core.observation import ClassWindow
from tandem_operator.core.observe.arrivals import by_class
from tandem_operator.core.slo import Slo, SloClass, class_named
from tandem_operator.workloads.builders.config_maps import router_settings
from tandem_operator.workloads.pool_spec import policy_of
from tests.unit.workloads.cluster import pool, report

KEY = "sha256:" + "a" * 64


def classed(*classes):
    return parse_pool(pool({"slo": {"preset": "Chat", "classes": list(classes)}}))


def test_a_class_has_the_bounds_of_all_but_for_its_own():
    found = policy_of(
        classed(
            {"name": "agent", "ttft": {"target": "9s"}, "attainment": "90%"},
            {"name": "plain"},
        ).spec
    )

    default, agent, plain = found.classes
    assert default.name == "default"
    assert plain.slo == default.slo
    assert agent.slo == replace(default.slo, ttft_s=9.0, attainment=0.9)


def test_replicas_are_held_for_the_strictest_guaranteed_bounds():
    found = policy_of(
        classed(
            {"name": "quick", "ttft": {"target": "100ms"}},
            {"name": "even", "tpot": {"target": "9ms"}, "attainment": "99.9%"},
            {"name": "batch", "service": "BestEffort", "tpot": {"target": "1ms"}},
        ).spec
    )

    assert found.slo.ttft_s == 0.1
    assert found.slo.tpot_s == pytest.approx(0.009)
    assert found.slo.attainment == pytest.approx(0.999)


def test_the_owner_of_a_pool_says_what_requests_without_a_class_are():
    found = policy_of(classed({"name": "default", "service": "BestEffort"}).spec)

    (default,) = found.classes
    assert not default.guaranteed
    assert found.slo == default.slo


def test_a_pool_without_classes_has_none():
    plain = parse_pool(pool())

    assert policy_of(plain.spec).classes == ()
    assert router_settings(plain, None, routers=1).classes == ()


def test_routers_hear_the_classes_and_their_keys():
    given = classed({"name": "batch", "service": "BestEffort", "priority": -5, "keys": [KEY]})

    default, batch = router_settings(given, None, routers=1).classes

    assert (default.name, default.guaranteed, default.keys) == ("default", True, ())
    assert (batch.guaranteed, batch.priority, batch.keys) == (False, -5, (KEY,))
    assert batch.slo.ttft_s == default.slo.ttft_s


def test_what_several_routers_say_of_a_class_adds_up():
    slo = Slo(1.0, 0.0, 0.05, 0.99)
    classes = (SloClass("default", slo), SloClass("batch", slo, guaranteed=False))
    one = ClassWindow("batch", 120.0, 4, 3, 100, 80, 2)
    gone = ClassWindow("of-yesterday", 120.0, 4, 3, 100, 80, 2)

    found = by_class(classes, [report(classes=(one, gone)), report(classes=(one,))])

    assert found == (ClassWindow("batch", 120.0, 8, 6, 200, 160, 4),)


def test_a_request_of_a_class_that_is_no_more_is_of_the_default():
    slo = Slo(1.0, 0.0, 0.05, 0.99)
    default = SloClass("default", slo)

    assert class_named((default, SloClass("batch", slo)), "gone") is default
    assert class_named((), "gone") is None
