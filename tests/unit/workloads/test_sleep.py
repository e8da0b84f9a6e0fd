"""A pool at zero, as others see it: its status, its children and its claims."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tandem_contracts.names import SETTINGS_KEY
from tandem_operator.core.objective.rest import Wake
from tandem_operator.core.observation import ArrivalSecond
from tandem_operator.core.quota.share import Quota
from tandem_operator.workloads.pass_plan import PassPlan, plan
from tandem_operator.workloads.status.sleep_status import wake_parts
from tandem_operator.workloads.world import Rival, World
from tests.unit.workloads.cluster import (
    NOW_S,
    after,
    child,
    condition,
    pod,
    pool,
    report,
    running,
    sample,
)
from tests.unit.workloads.kstatus import CURRENT, IN_PROGRESS, verdict
from tests.unit.workloads.rollouts import NEW_PODS

SLEEPS: Mapping[str, Any] = {"scaling": {"scaleToZeroAfter": "10m"}}
ZERO = {"prefill": 0, "decode": 0, "router": 1}
AWAKE = {"prefill": 1, "decode": 1, "router": 1}


def idle(*changes: Mapping[str, Any]) -> World:
    """Return a pool that may sleep, and had no request for half an hour."""
    live = running(SLEEPS, *changes)
    engines = tuple(
        sample(each["metadata"]["name"], role, running=0.0)
        for role in ("prefill", "decode")
        for each in live.pods
        if each["metadata"]["labels"]["tandem-inference.io/role"] == role
    )
    return replace(live, engines=engines, routers=(report(),), router_pods=1)


def asleep(*changes: Mapping[str, Any]) -> World:
    """Return the same once its engine pods are gone."""
    live = idle(*changes)
    gone = after(live, plan(live, now_s=NOW_S), routers=live.routers, router_pods=1)
    routers = tuple(p for p in live.pods if "router" in p["metadata"]["name"])
    settled = replace(gone, pods=routers)
    return after(
        settled, plan(settled, now_s=NOW_S + 5), routers=(report(now_s=NOW_S + 5),), router_pods=1
    )


def later(live: World, seconds: float, **parts: Any) -> tuple[World, PassPlan]:
    """Return the pool some seconds later, and the plan of that moment."""
    now_s = NOW_S + seconds
    seen = replace(live, routers=(report(now_s=now_s, **parts),))
    return seen, plan(seen, now_s=now_s)


def asked_for(live: World, *, at_s: float = 65.0) -> tuple[World, PassPlan]:
    """Return the pool just after a request came."""
    rows = (ArrivalSecond(int(NOW_S + at_s), (1, 0, 0), (100, 0, 0), 0),)
    return later(live, at_s, arrivals=rows, queued_requests=1, queued_prompt_tokens=100)


def settings_of(planned: PassPlan) -> Mapping[str, Any]:
    data = child(planned.children, "ConfigMap", "tiny-router")["data"]
    return dict(json.loads(data[SETTINGS_KEY]))


def test_an_idle_pool_goes_to_zero_and_says_so() -> None:
    live = idle()
    planned = plan(live, now_s=NOW_S)

    assert planned.replicas == ZERO
    assert planned.status is not None
    for kind in ("Ready", "Available"):
        found = condition(planned.status, kind)
        assert (found["status"], found["reason"]) == ("True", "Asleep")
    assert "no request arrived for 600 s" in planned.status["decision"]["reason"]
    assert {event.reason for event in planned.events} >= {"Asleep"}


def test_a_pool_at_zero_is_current_for_gitops_tools_and_stays_silent() -> None:
    live = asleep()
    seen, planned = later(live, 60.0)

    assert planned.replicas == ZERO
    assert planned.status is None
    assert planned.events == ()
    assert verdict(seen.pool) == CURRENT
    status = seen.pool["status"]
    assert (status["prefill"]["summary"], status["decode"]["summary"]) == ("0/0", "0/0")
    assert status["sleep"]["since"]
    assert condition(status, "CapacityBlocked")["status"] == "False"
    assert condition(status, "ScalingActive")["status"] == "True"
    assert condition(status, "MetricsFresh")["status"] == "True"
    assert planned.asleep


def test_a_request_for_which_no_replica_is_held_wakes_both_roles_too() -> None:
    _, planned = later(asleep(), 65.0, queued_requests=1)

    assert planned.replicas == AWAKE


@pytest.mark.parametrize("told", ["arrivals", "best_effort"])
def test_a_request_that_came_lately_keeps_a_pool_awake(told: str) -> None:
    second = int(NOW_S - 400.0)
    rows = {
        "arrivals": (ArrivalSecond(second, (1, 0, 0), (100, 0, 0), 0),),
        "best_effort": (second,),
    }
    live = replace(idle(), routers=(report(**{told: rows[told]}),))

    assert plan(live, now_s=NOW_S).replicas == AWAKE


def test_best_effort_that_was_told_to_come_again_wakes_both_roles() -> None:
    _, planned = later(asleep(), 65.0, best_effort=(int(NOW_S + 64.0),))

    assert planned.replicas == AWAKE


def came(*seconds: float) -> tuple[ArrivalSecond, ...]:
    return tuple(ArrivalSecond(int(at_s), (1, 0, 0), (100, 0, 0), 0) for at_s in seconds)


def test_the_last_request_wakes_a_pool_however_long_ago_the_first_came() -> None:
    """No decision was made for longer than the first one would have kept the pool awake."""
    first, last = NOW_S + 60.0, NOW_S + 897.0

    assert later(asleep(), 900.0, arrivals=came(first))[1].replicas == ZERO
    assert later(asleep(), 900.0, arrivals=came(first, last))[1].replicas == AWAKE


def test_a_time_still_to_come_keeps_no_pool_awake() -> None:
    live = replace(idle(), routers=(report(arrivals=came(NOW_S + 3000.0)),))

    assert plan(live, now_s=NOW_S).replicas == ZERO


def test_a_time_still_to_come_wakes_no_pool() -> None:
    live = asleep()

    for arrivals in (came(NOW_S + 3000.0), came(NOW_S - 3000.0)):
        assert later(live, 60.0, arrivals=arrivals)[1].replicas == ZERO


def test_a_router_whose_clock_is_a_little_fast_wakes_a_pool() -> None:
    assert later(asleep(), 60.0, arrivals=came(NOW_S + 61.9))[1].replicas == AWAKE


def test_an_operator_whose_clock_was_set_back_forgets_no_pause() -> None:
    live = replace(idle(), routers=(report(arrivals=came(NOW_S - 30.0)),))
    before = plan(live, now_s=NOW_S)
    back_s = 3000.0
    seen = replace(live, memory=before.memory)
    # The same hour once more, by another clock.
    for ago_s in (back_s, back_s - 605.0):
        now_s = NOW_S - ago_s
        seen = replace(seen, routers=(report(now_s=now_s, started_s=NOW_S - 9000.0),))
        planned = plan(seen, now_s=now_s)
        seen = replace(seen, memory=planned.memory)

    assert planned.replicas == ZERO


def test_a_wake_without_room_waits_for_room_although_its_request_is_gone() -> None:
    gpus = {"gpusPerReplica": 2}
    nvidia = {"engine": {"device": "NVIDIA", "dtype": "bfloat16", "kvCacheMemory": None}}
    full = Quota(pool="tiny", hard_gpus=8, gpus=3)
    live = replace(asleep({"prefill": gpus, "decode": gpus}, nvidia), quota=full)
    seen, planned = later(live, 65.0, arrivals=came(NOW_S + 64.0))
    assert planned.replicas == ZERO

    still = replace(after(seen, planned, routers=(), router_pods=1), quota=full)
    still, planned = later(still, 70.0, arrivals=came(NOW_S + 64.0))
    assert planned.replicas == ZERO
    room = replace(
        after(still, planned, routers=(), router_pods=1),
        quota=Quota(pool="tiny", hard_gpus=8, gpus=8),
    )

    assert later(room, 75.0, arrivals=came(NOW_S + 64.0))[1].replicas == AWAKE
    assert later(room, 675.0, arrivals=came(NOW_S + 64.0))[1].replicas == ZERO


def test_the_routers_are_told_how_long_a_wake_takes_while_one_may_come() -> None:
    assert settings_of(plan(idle(), now_s=NOW_S))["wake_s"] == 65.0
    for mode in ("Paused", "Recommend"):
        live = idle({"scaling": {"mode": mode}})
        assert settings_of(plan(live, now_s=NOW_S))["wake_s"] is None
    assert settings_of(plan(running(), now_s=NOW_S))["wake_s"] is None


def test_a_request_wakes_both_roles_at_once_with_their_minimum() -> None:
    live = asleep({"prefill": {"minReplicas": 2}})
    seen, planned = asked_for(live)

    assert planned.replicas == {"prefill": 2, "decode": 1, "router": 1}
    assert planned.status is not None
    ready = condition(planned.status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Waking")
    assert verdict(seen.pool | {"status": planned.status}) == IN_PROGRESS
    assert not [event for event in planned.events if event.type.value == "Warning"]
    assert {event.reason for event in planned.events} == {"Waking"}
    assert not planned.asleep
    assert planned.memory_object is not None


def test_a_restarted_operator_lets_the_pool_sleep_and_wakes_it_as_before() -> None:
    live = replace(asleep(), memory=None)

    assert later(live, 60.0)[1].replicas == ZERO
    assert asked_for(live)[1].replicas == AWAKE


def test_without_its_memory_too() -> None:
    live = asleep()
    children = tuple(c for c in live.children if c["metadata"]["name"] != "tiny-memory")
    live = replace(live, memory=None, children=children)

    assert later(live, 60.0)[1].replicas == ZERO
    assert asked_for(live)[1].replicas == AWAKE


def test_no_word_of_the_routers_changes_nothing() -> None:
    live = replace(asleep(), routers=(), router_pods=1)

    assert plan(live, now_s=NOW_S + 300.0).replicas == ZERO


def test_an_edit_of_a_pool_at_zero_starts_no_pod_and_is_rolled_out_at_once() -> None:
    live = asleep()
    edited = replace(live, pool=pool(SLEEPS, NEW_PODS, generation=2, status=live.pool["status"]))
    _, planned = later(edited, 60.0)

    assert planned.replicas == ZERO
    assert planned.status is not None
    body = edited.pool | {"status": planned.status}
    assert verdict(body) == CURRENT
    assert planned.status["observedGeneration"] == 2


def test_without_the_field_a_pool_at_zero_comes_back() -> None:
    live = asleep()
    edited = replace(live, pool=pool(generation=2, status=live.pool["status"]))

    assert later(edited, 60.0)[1].replicas == AWAKE


@pytest.mark.parametrize("mode", ["Paused", "Recommend"])
def test_a_pool_that_tandem_may_not_wake_is_not_ready(mode: str) -> None:
    live = asleep()
    paused = {"scaling": {"scaleToZeroAfter": "10m", "mode": mode}}
    edited = replace(live, pool=pool(paused, generation=2, status=live.pool["status"]))

    _, planned = asked_for(edited)

    assert set(planned.replicas) <= {"router"}
    assert planned.status is not None
    available = condition(planned.status, "Available")
    assert (available["status"], available["reason"]) == ("False", "NotAwakened")
    assert "scaling.mode: Auto" in available["message"]
    assert not planned.asleep


def test_a_rival_that_is_left_alone_keeps_the_pool_awake() -> None:
    live = replace(idle(), rivals={"decode": Rival("somebody", left_alone=True)})

    assert plan(live, now_s=NOW_S).replicas == {"prefill": 1, "router": 1}


def test_a_pool_at_zero_leaves_its_share_of_a_quota_to_others() -> None:
    gpus = {"gpusPerReplica": 2}
    nvidia = {"engine": {"device": "NVIDIA", "dtype": "bfloat16", "kvCacheMemory": None}}
    spec = ({"prefill": gpus, "decode": gpus}, nvidia)
    quota = Quota(pool="tiny", hard_gpus=8, gpus=8)
    live = replace(asleep(*spec), quota=quota)
    seen, planned = later(live, 60.0)

    assert planned.replicas == ZERO
    assert planned.claim is not None
    assert (planned.claim.least, planned.claim.reserved) == (0, 0)
    _, woken = asked_for(seen)
    assert woken.replicas == AWAKE
    assert woken.claim is not None
    assert woken.claim.least == 4


def test_a_wake_that_the_quota_has_no_room_for_takes_neither_role() -> None:
    gpus = {"gpusPerReplica": 2}
    nvidia = {"engine": {"device": "NVIDIA", "dtype": "bfloat16", "kvCacheMemory": None}}
    live = asleep({"prefill": gpus, "decode": gpus}, nvidia)

    _, planned = asked_for(replace(live, quota=Quota(pool="tiny", hard_gpus=8, gpus=3)))

    assert planned.replicas == ZERO
    assert planned.status is not None
    assert condition(planned.status, "CapacityBlocked")["status"] == "True"


def test_a_drained_node_keeps_no_pool_from_sleeping() -> None:
    live = replace(idle(), cordoned=frozenset({"node-1"}))

    counts = plan(live, now_s=NOW_S).replicas
    assert (counts["prefill"], counts["decode"]) == (0, 0)


def test_the_parts_of_a_wake_follow_one_another() -> None:
    wake = Wake(asked_s=10.0, decided_s=11.2, scheduled_s=11.0, ready_s=71.0, first_token_s=71.5)

    parts = wake_parts(wake)

    assert parts == pytest.approx(
        {"noticed": 1.2, "scheduled": 0.0, "started": 59.8, "first_token": 0.5}
    )
    assert list(wake_parts(replace(wake, ready_s=None))) == ["noticed", "scheduled"]


def test_a_wake_is_told_in_the_status_by_its_parts() -> None:
    live, planned = asked_for(asleep())
    woken = after(live, planned, routers=live.routers, router_pods=1)
    created = "2026-09-21T14:14:26Z"
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-09-21T14:15:20Z"}]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": created}
    status = {"phase": "Running", "conditions": [*ready, scheduled]}
    pods = tuple(pod(woken, role, created=created, status=status) for role in ("prefill", "decode"))
    served = replace(woken, pods=(*live.pods, *pods))

    _, told = later(served, 130.0, woken_token_s=NOW_S + 121.0)

    assert told.status is not None
    wake = told.status["sleep"]["lastWake"]
    assert told.status["sleep"]["wakes"] == 1
    assert wake == {
        "time": "2026-09-21T14:14:25Z",
        "noticed": "0ms",
        "scheduled": "1s",
        "started": "54s",
        "firstToken": "1s",
    }

    _, told = later(served, 130.0, woken_token_s=NOW_S + 3000.0)

    assert told.status is not None
    assert "firstToken" not in told.status["sleep"]["lastWake"]
