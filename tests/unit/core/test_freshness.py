"""The usable part of an observation, and its permission: growth, shrinking, or nothing."""

import math
from dataclasses import replace

import pytest

from tandem_operator.core.observation import Latency, Observation, Quantiles
from tandem_operator.core.observe.freshness import freshness, usable
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.scene import NOW_S, leg, observe, report

FRESH_S, CLOCK_SKEW_S = TUNING.observe.fresh_s, TUNING.observe.clock_skew_s
NEW_POD_S = TUNING.observe.new_pod_s
NO_NUMBERS = [math.nan, math.inf, -math.inf, -1.0]


def judged(observation: Observation) -> tuple[bool, bool, str]:
    found = freshness(usable(observation, NOW_S), NOW_S)
    return found.act, found.shrink, found.message


@pytest.mark.parametrize(
    ("age_s", "kept"),
    [
        (0.0, True),
        (FRESH_S, True),
        (FRESH_S + 0.1, False),
        (-CLOCK_SKEW_S, True),
        (-CLOCK_SKEW_S - 0.1, False),
    ],
)
def test_samples_that_are_old_or_of_a_time_to_come_are_dropped(age_s: float, *, kept: bool) -> None:
    at_s = NOW_S - age_s
    seen = observe(
        now_s=at_s, routers=[report(now_s=at_s)], latency=Latency(at_s, Quantiles(), Quantiles())
    )

    found = usable(seen, NOW_S)

    assert bool(found.engines) is bool(found.routers) is (found.latency is not None) is kept


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_samples_with_a_number_that_is_none_are_dropped_alone(value: float) -> None:
    seen = observe(prefill=2, decode=1)
    broken = replace(seen.engines[0], waiting=value)

    found = usable(replace(seen, engines=(broken, *seen.engines[1:])), NOW_S)

    assert found.engines == seen.engines[1:]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_router_or_a_pod_with_a_number_that_is_none_is_not_believed(value: float) -> None:
    seen = observe(routers=[report(legs=[leg("prefill-ready-0", busy_s=value)]), report()])
    pod = replace(seen.pods[0], created_s=value)

    found = usable(replace(seen, pods=(pod, *seen.pods[1:])), NOW_S)

    assert found.routers == (report(),)
    assert found.pods == seen.pods[1:]


def test_a_pool_that_is_wholly_seen_may_grow_and_shrink() -> None:
    assert judged(observe(prefill=2, decode=2)) == (
        True,
        True,
        "Tandem has fresh metrics from routers and Ready engine pods",
    )


@pytest.mark.parametrize(("missing", "grows"), [(1, True), (2, True), (3, False)])
def test_a_pool_grows_while_two_thirds_of_its_pods_are_seen(missing: int, *, grows: bool) -> None:
    seen = observe(prefill=3, decode=3)

    act, shrink, message = judged(replace(seen, engines=seen.engines[missing:]))

    assert (act, shrink) == (grows, False)
    gone = ", ".join(f"prefill-ready-{i}" for i in range(missing))
    assert message == (
        f"Tandem has no fresh metrics from {gone}"
        if grows
        else "Tandem has fresh metrics from only 3 of 6 Ready engine pods"
    )


@pytest.mark.parametrize(("ago_s", "shrinks"), [(NEW_POD_S, True), (NEW_POD_S + 1.0, False)])
def test_a_pod_that_just_became_ready_may_not_be_sampled_yet(
    ago_s: float, *, shrinks: bool
) -> None:
    seen = observe(prefill=2, decode=2)
    new = replace(seen.pods[0], ready_s=NOW_S - ago_s)

    act, shrink, _ = judged(replace(seen, pods=(new, *seen.pods[1:]), engines=seen.engines[1:]))

    assert (act, shrink) == (True, shrinks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"router_pods": 2}, "Tandem has fresh metrics from only 1 of 2 routers"),
        ({"turned_away": True}, "no router is Ready, so clients get no answer"),
        (
            {"routers": (report(), report(router="router-2", ended=True, lost_s=NOW_S))},
            "router router-2 ended, and the requests of its last seconds are unknown",
        ),
    ],
)
def test_what_routers_leave_out_forbids_shrinking_alone(
    change: dict[str, object], message: str
) -> None:
    assert judged(observe(**change)) == (True, False, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"routers": ()}, "Tandem has fresh metrics from 0 of 1 routers"),
        ({"routers": (report(ended=True),)}, "Tandem has fresh metrics from 0 of 1 routers"),
        ({"routers": (), "router_pods": 0}, "no router is running"),
    ],
)
def test_without_a_router_nothing_may_move(change: dict[str, object], message: str) -> None:
    assert judged(observe(**change)) == (False, False, message)
