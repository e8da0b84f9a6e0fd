"""The pool tells the truth to all that wait: people, `kubectl wait`, and tools with kstatus."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.api.crd import custom_resource_definition
from tandem_operator.core.role import Role
from tandem_operator.workloads.observed.rivals import AN_AUTOSCALER
from tandem_operator.workloads.pass_plan import EventType, conclude, plan
from tandem_operator.workloads.world import Rival
from tests.unit.workloads.cluster import (
    NOW,
    NOW_S,
    after,
    condition,
    container_status,
    deployment,
    pod,
    pool,
    report,
    running,
    sample,
    status_of,
    with_pod,
    world,
)
from tests.unit.workloads.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, verdict
from tests.unit.workloads.rollouts import (
    BLOCKED,
    NEW_PODS,
    REFUSED,
    applied,
    edited,
    of_pods,
    rolled,
    serving,
    told,
)

COMPONENTS = ("prefill", "decode", "router")
TRIO = ("Ready", "Reconciling", "Stalled")
INVALID = {"slo": {"attainment": "0%"}}
COLD_STARTS = {"router": 10, "prefill": 60, "decode": 120}
CRASHED = container_status(
    state={"waiting": {"reason": "CrashLoopBackOff"}},
    lastState={"terminated": {"exitCode": 1, "message": "cannot load the model"}},
)


def states(obj):
    """Return the status of each condition that others wait for, by type."""
    kinds = ("Available", *TRIO)
    return {kind: condition(obj["status"], kind)["status"] for kind in kinds}


def said(obj, kind):
    found = condition(obj["status"], kind)
    return found["reason"], found["message"]


def is_seen(obj):
    return obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


def test_a_pool_that_runs_at_its_minimum_is_done():
    found = told(serving())

    assert states(found) == {
        "Available": "True",
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }
    assert verdict(found) == CURRENT


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_pool_without_a_ready_pod_of_one_component_is_neither_available_nor_ready(component):
    found = told(with_pod(running(), component))

    reason, message = said(found, "Available")
    assert (reason, message) == ("Starting", f"The pool needs a Ready pod of {component}.")
    assert said(found, "Ready") == (reason, message)
    assert states(found)["Available"] == "False"
    assert verdict(found) == IN_PROGRESS


def test_a_rollout_is_told_by_how_far_it_is_while_the_old_pods_serve():
    found = told(edited(serving(prefill=3), NEW_PODS))

    assert states(found) == {
        "Available": "True",
        "Ready": "False",
        "Reconciling": "True",
        "Stalled": "False",
    }
    assert said(found, "Reconciling") == (
        "RollingOut",
        "prefill: 0 of 3 pods run the new spec; decode: 0 of 1 pods run the new spec.",
    )
    assert is_seen(found)
    assert verdict(found) == IN_PROGRESS


def test_a_restart_by_another_client_is_a_rollout_too():
    live = serving(prefill=3)
    status = {"status": {"replicas": 3, "updatedReplicas": 1}}
    children = tuple(
        each | status if each is deployment(live, "prefill") else each for each in live.children
    )

    found = told(replace(live, children=children))

    assert said(found, "Reconciling") == (
        "RollingOut",
        "prefill: 1 of 3 pods run the new spec.",
    )
    assert states(found)["Ready"] == "False"


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (1, 3, "prefill: 1 of 3 pods run the new spec."),
        (3, 1, "prefill: 3 of 3 pods run the new spec, and 1 older pod is still running."),
    ],
)
def test_each_new_pod_moves_the_progress(new, old, words):
    old_pods = {"prefill": old, "router": 1}

    found = told(
        rolled(serving(prefill=3), new={"prefill": new, "decode": 1}, old=old_pods),
    )

    assert said(found, "Reconciling")[1] == words


def test_a_rollout_is_done_once_the_last_old_pod_is_told_to_end():
    live = rolled(serving(), new={"prefill": 1, "decode": 1}, old={"decode": 1, "router": 1})
    assert verdict(told(live)) == IN_PROGRESS
    (old,) = [each for each in live.pods if each["metadata"]["name"] == "tiny-decode-0-0"]
    ending = old | {"metadata": old["metadata"] | {"deletionTimestamp": NOW}}

    found = told(replace(live, pods=(*[each for each in live.pods if each is not old], ending)))

    assert verdict(found) == CURRENT


def test_a_rollout_that_does_not_come_up_says_why_while_older_pods_serve():
    live = serving()
    rolling = applied(edited(live, NEW_PODS))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    newcomer = pod(rolling, "decode", 1, ready=False, status=container_status(state=waiting))

    found = told(replace(rolling, pods=(*live.pods, newcomer)))

    assert states(found)["Available"] == "True"
    assert said(found, "Ready")[0] == "ImagePullBackOff"
    assert (
        "decode: 0 of 1 pods run the new spec: ImagePullBackOff: no such image"
        in (said(found, "Reconciling")[1])
    )


@pytest.mark.parametrize(
    ("change", "outcome", "reason"),
    [
        (NEW_PODS, REFUSED, "ChildRefused"),
        (NEW_PODS, BLOCKED, "OwnedByOther"),
        (INVALID, None, "InvalidSpec"),
    ],
)
def test_a_refused_edit_is_seen_and_stalls_a_pool_that_serves_on(change, outcome, reason):
    live = edited(serving(), change)

    found = told(live) if outcome is None else told(live, outcome)

    assert is_seen(found)
    assert states(found) == {
        "Available": "True",
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }
    accepted = condition(found["status"], "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", reason)
    assert said(found, "Stalled") == said(found, "Ready") == (reason, accepted["message"])
    assert verdict(found) == FAILED


def test_a_pool_is_done_again_once_its_edit_is_taken_back():
    live = serving()
    refused = told(edited(live, INVALID))

    found = told(replace(live, pool=pool(generation=3, status=refused["status"])))

    assert verdict(refused) == FAILED
    assert verdict(found) == CURRENT


def test_a_new_pool_that_is_refused_does_not_serve():
    found = told(world(pool(INVALID)))

    assert states(found)["Available"] == "False"
    assert verdict(found) == FAILED


def test_a_new_pool_that_is_refused_tells_of_no_fleet_and_does_once_it_is_taken():
    new = world(pool({"prefill": {"minReplicas": 3}}), routers=(report(),))
    planned = plan(new, now_s=NOW_S)
    refused = conclude(planned, REFUSED, world=new, now_s=NOW_S)
    stored = pool({"prefill": {"minReplicas": 3}}, generation=2, status=refused.status)

    taken = plan(world(stored, routers=(report(),)), now_s=NOW_S)

    assert [event.message for event in refused.events if "->" in event.message] == []
    assert "decision" not in refused.status
    told_now = [event.message for event in taken.events if "->" in event.message]
    assert any(message.startswith("prefill 0 -> 3") for message in told_now)


def test_pods_that_serve_are_counted_whatever_their_generation():
    live = serving(prefill=3)
    rolling = applied(edited(live, NEW_PODS))

    status = told(of_pods(rolling, [pod(live, "prefill") for _ in range(3)]))["status"]

    assert status["prefill"]["summary"] == "3/3"
    assert (status["prefill"]["ready"], status["prefill"]["updated"]) == (3, 0)


def test_a_pool_below_its_minimum_serves_and_is_not_done():
    found = told(serving({"decode": {"minReplicas": 3}}))

    assert states(found)["Available"] == "True"
    assert said(found, "Ready") == ("BelowMinimum", "decode: 1 of the required 3 pods are Ready.")
    assert said(found, "Reconciling") == said(found, "Ready")
    assert verdict(found) == IN_PROGRESS


@pytest.mark.parametrize(
    "change",
    [
        {"scaling": {"mode": "Paused"}},
        {"scaling": {"mode": "Recommend"}},
        {"decode": {"management": "External"}},
    ],
    ids=["Paused", "Recommend", "External"],
)
def test_a_count_below_the_minimum_that_another_owner_set_keeps_no_pool_waiting(change):
    found = told(serving({"decode": {"minReplicas": 3}}, change))

    assert verdict(found) == CURRENT


@pytest.mark.parametrize(
    ("change", "rivals", "expected"),
    [
        ({}, {}, IN_PROGRESS),
        ({"scaling": {"mode": "Paused"}}, {}, CURRENT),
        ({"scaling": {"mode": "Recommend"}}, {}, IN_PROGRESS),
        ({}, {"router": Rival(AN_AUTOSCALER, left_alone=True)}, CURRENT),
    ],
    ids=["Auto", "Paused", "Recommend", "a rival"],
)
def test_routers_below_their_minimum_count_where_tandem_sets_them(change, rivals, expected):
    live = serving({"router": {"minReplicas": 2}}, change)
    deployment(live, "router")["spec"]["replicas"] = 1

    assert verdict(told(replace(live, rivals=rivals))) == expected


def test_a_pool_that_no_operator_saw_is_in_progress():
    version = custom_resource_definition()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    stored = pool()

    assert verdict(stored) == CURRENT
    assert verdict(with_defaults(stored, schema)) == IN_PROGRESS
    # So does one that an operator has claimed and not looked at yet.
    claimed = pool(status={"operator": "tandem-system/operator"})
    assert verdict(with_defaults(claimed, schema)) == IN_PROGRESS


def with_defaults(value, schema):
    """Return the API server's version of an object."""
    if "properties" not in schema or not isinstance(value, dict):
        return value
    given = {
        name: child["default"]
        for name, child in schema["properties"].items()
        if "default" in child and name not in value
    }
    return {
        name: with_defaults(each, schema["properties"].get(name, {}))
        for name, each in (given | value).items()
    }


def test_the_first_pass_of_an_operator_takes_a_default_status_for_none():
    new = world(pool(status={"observedGeneration": -1}))

    found = told(new)

    assert is_seen(found)
    assert verdict(found) == IN_PROGRESS


def test_an_object_on_its_way_out_is_terminating():
    live = serving()
    live.pool["metadata"]["deletionTimestamp"] = NOW

    assert verdict(live.pool) == TERMINATING


def test_an_slo_edit_rolls_out_nothing():
    found = told(edited(serving(), {"slo": {"tpot": {"target": "5ms"}}}))

    assert is_seen(found)
    assert verdict(found) == CURRENT


@pytest.mark.parametrize("status", [{}, CRASHED], ids=["starting", "crashing"])
def test_a_replica_above_the_minimum_that_is_not_ready_leaves_the_pool_ready(status):
    live = serving(prefill=2)
    deployment(live, "prefill")["spec"]["replicas"] = 3
    newcomer = pod(live, "prefill", 2, ready=False, status=status)

    found = told(replace(live, pods=(*live.pods, newcomer)), now_s=NOW_S + 5)

    assert verdict(found) == CURRENT


def test_a_stuck_newcomer_leaves_the_pool_ready():
    live = serving()
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"conditions": [unscheduled]}
    newcomer = pod(live, "decode", 1, ready=False, node=None, status=status)

    found = told(replace(live, pods=(*live.pods, newcomer)), now_s=NOW_S + 60)

    assert states(found)["Ready"] == "True"
    assert condition(found["status"], "CapacityBlocked")["status"] == "True"
    assert found["status"]["decode"]["pending"] == 1


def test_a_crash_below_the_minimum_is_told_with_its_reason():
    two = {"decode": {"minReplicas": 2}}
    live = serving(two, decode=2)
    assert verdict(told(live)) == CURRENT

    broken = with_pod(live, "decode", status=CRASHED)
    found = told(broken)

    assert states(found)["Available"] == "True"
    assert said(found, "Ready") == (
        "Crashing",
        "decode: 1 of the required 2 pods are Ready: Crashing: engine: cannot load the model"
        " (exit code 1).",
    )
    assert verdict(found) == IN_PROGRESS
    warnings = [each.reason for each in plan(broken, now_s=NOW_S).events if is_warning(each)]
    assert "Crashing" in warnings


def is_warning(event):
    return event.type is EventType.WARNING


def test_a_transition_time_moves_with_each_status_alone():
    live = serving()
    later = told(edited(live, NEW_PODS), now_s=NOW_S + 60)

    for kind in ("Ready", "Reconciling"):
        assert condition(later["status"], kind)["lastTransitionTime"] != NOW
    for kind in ("Available", "Stalled"):
        assert condition(later["status"], kind)["lastTransitionTime"] == NOW


@pytest.mark.parametrize("first_metrics_s", [0.0, 50.0], ids=["direct", "of a slow Prometheus"])
def test_a_pool_that_merely_starts_emits_no_warning(first_metrics_s):
    live, events = world(), []
    for second in range(0, 300, 10):
        now_s = NOW_S + second
        planned = plan(live, now_s=now_s)
        events += planned.events
        live = after(live, planned)
        ready = [each for each, at_s in COLD_STARTS.items() if second >= at_s]
        measured = second >= max(COLD_STARTS.values()) + first_metrics_s
        live = replace(
            live,
            pods=tuple(pod(live, each, ready=each in ready) for each in COMPONENTS),
            routers=(report(now_s=now_s + 10.0),) if measured else (),
            router_pods=1,
            engines=tuple(
                sample(f"tiny-{role}-0", role, running=0, sampled_s=now_s + 10.0)
                for role in Role
                if measured
            ),
        )

    assert [event.reason for event in events] == ["Initial", "Initial", "RolledOut", "Serving"]
    assert not any(map(is_warning, events))


def test_an_outage_of_a_pool_that_served_is_a_warning_once():
    live = serving()
    down = with_pod(live, "decode")

    events = [each for each in plan(down, now_s=NOW_S).events if each.reason == "Starting"]

    assert [each.type for each in events] == [EventType.WARNING]


def test_a_rollout_is_told_once_and_is_no_warning():
    rolling = edited(serving(), NEW_PODS)
    first = plan(rolling, now_s=NOW_S)

    begun = [each for each in first.events if each.reason == "RollingOut"]
    again = plan(replace(applied(rolling), pods=rolling.pods), now_s=NOW_S + 5)

    assert [each.type for each in begun] == [EventType.NORMAL]
    assert [each for each in again.events if each.reason == "RollingOut"] == []


def test_a_pool_of_an_earlier_operator_is_not_told_to_serve_again():
    live = serving()
    before = dict(live.pool["status"])
    kept = [each for each in before["conditions"] if each["type"] in ("Ready", "Accepted")]
    live.pool["status"] = before | {"conditions": kept}

    planned = plan(live, now_s=NOW_S + 5)

    assert states({"status": planned.status})["Available"] == "True"
    assert planned.events == ()


PODS = st.lists(
    st.tuples(
        st.sampled_from(COMPONENTS),
        st.booleans(),
        st.sampled_from(["ready", "starting", "crashing", "ending"]),
    ),
    max_size=9,
)


def of_kind(live, rolling, component, *, new, state):
    made = pod(
        rolling if new else live,
        component,
        ready=state in ("ready", "ending"),
        status=CRASHED if state == "crashing" else None,
    )
    if state == "ending":
        made["metadata"]["deletionTimestamp"] = NOW
    return made


@settings(max_examples=40, deadline=None)
@given(
    ready=st.integers(0, 2),
    more=st.lists(st.sampled_from(["starting", "crashing", "ending"]), max_size=4),
    least=st.integers(1, 3),
)
def test_ready_is_about_the_minimum_alone_whatever_else_starts_or_crashes(ready, more, least):
    live = serving({"decode": {"minReplicas": least}})
    pods = [*live.pods, *(pod(live, "decode") for _ in range(ready))]
    pods += [of_kind(live, live, "decode", new=True, state=state) for state in more]

    found = told(of_pods(live, pods))

    assert verdict(found) == (CURRENT if 1 + ready >= least else IN_PROGRESS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pods=PODS,
    least=st.integers(1, 3),
    outcome=st.sampled_from([None, REFUSED, BLOCKED]),
    valid=st.booleans(),
)
def test_a_pool_is_ready_or_on_its_way_or_stalled_and_never_two_of_them(
    pods, least, outcome, valid
):
    live = serving({"decode": {"minReplicas": least}})
    edit = edited(live, NEW_PODS, {"decode": {"minReplicas": least}}, {} if valid else INVALID)
    rolling = applied(edit)
    made = [of_kind(live, rolling, each, new=new, state=state) for each, new, state in pods]
    seen = of_pods(rolling, made)

    found = told(seen) if outcome is None or not valid else told(seen, outcome)

    states_now = states(found)
    assert [states_now[kind] for kind in TRIO].count("True") == 1
    assert states_now["Available"] == "True" or states_now["Ready"] == "False"
    expected = {"Ready": CURRENT, "Reconciling": IN_PROGRESS, "Stalled": FAILED}
    (true,) = [kind for kind in TRIO if states_now[kind] == "True"]
    assert verdict(found) == expected[true]
    reversed_list = found["status"]["conditions"][::-1]
    backwards = found | {"status": found["status"] | {"conditions": reversed_list}}
    assert verdict(backwards) == verdict(found)
    assert is_seen(found)


def test_the_reason_of_ready_is_in_the_table_that_people_look_at():
    (version,) = custom_resource_definition()["spec"]["versions"]
    columns = {each["name"]: each for each in version["additionalPrinterColumns"]}

    assert columns["REASON"]["jsonPath"] == '.status.conditions[?(@.type=="Ready")].reason'
    assert "priority" not in columns["REASON"]
    assert condition(status_of(running()), "Ready")["reason"] == "RolledOut"


def test_what_two_conditions_say_in_the_same_words_is_one_event():
    live = serving()
    broken = with_pod(live, "decode", status=CRASHED)

    planned = plan(broken, now_s=NOW_S)
    events = [each for each in planned.events if each.reason == "Crashing"]

    for kind in ("Available", "Ready"):
        assert condition(planned.status, kind)["reason"] == "Crashing"
    assert len(events) == 1
