"""The texts for a user: conditions, troubles, decisions and Events."""

from dataclasses import replace

import pytest

from tandem_operator.api import Condition, PoolStatus, parse_status
from tandem_operator.api.v1alpha1.scaling import MetricsSource
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import FinishedSecond, Latency, Quantiles, SickPod
from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import EventType, WriteOutcome, conclude, plan
from tandem_operator.workloads.status.conditions import rfc3339
from tandem_operator.workloads.status.pool_events import events_of
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

TERMINATED = {"exitCode": 1, "reason": "Error"}


def ended(at_s, *, finished, good):
    none = dict.fromkeys(("failed", "shed", "gone", "late_tpot"), 0)
    return FinishedSecond(
        second=int(at_s),
        finished=finished,
        good=good,
        late_ttft=finished - good,
        output_tokens=10 * finished,
        output_tokens_squared=100 * finished,
        **none,
    )


def sick(name, role, *, since_s=NOW_S - 60, reason="failures"):
    return SickPod(name, role, since_s, reason)


def health_of(live):
    found = condition(status_of(live), "EnginesHealthy")
    return found["status"], found["message"]


def test_a_sick_engine_is_named_with_what_is_wrong_and_since_when():
    told = report(sick=(sick("tiny-decode-0", Role.DECODE, since_s=NOW_S - 3600),))
    other = report(router="b", sick=(sick("tiny-decode-0", Role.DECODE, reason="slow"),))

    status, message = health_of(replace(running(), routers=(told, other), router_pods=2))

    assert status == "False"
    assert message == (
        "The routers send no requests to these Ready pods: decode pod"
        f" tiny-decode-0 since {rfc3339(NOW_S - 3600)}: its last requests all failed."
    )


def test_both_roles_may_have_sick_engines():
    pods = (sick("tiny-decode-0", Role.DECODE), sick("tiny-prefill-0", Role.PREFILL, reason="kv"))

    _, message = health_of(replace(running(), routers=(report(sick=pods),)))

    assert "decode pod tiny-decode-0" in message
    assert "prefill pod tiny-prefill-0" in message
    assert "cannot pull its KV blocks" in message


@pytest.mark.parametrize(
    "pod",
    [
        sick("tiny-decode-0", Role.DECODE, since_s=NOW_S - 1),
        sick("tiny-decode-9", Role.DECODE),
        sick("tiny-decode-0", Role.DECODE, since_s=1e23),
    ],
    ids=["since a moment", "gone", "in the future"],
)
def test_what_is_not_worth_telling_is_not_told(pod):
    status, _ = health_of(replace(running(), routers=(report(sick=(pod,)),)))

    assert status == "True"


def test_the_time_of_a_router_whose_clock_is_senseless_does_no_harm():
    pod = sick("tiny-decode-0", Role.DECODE, since_s=-1e23, reason="of tomorrow")

    status, message = health_of(replace(running(), routers=(report(sick=(pod,)),)))

    assert status == "False"
    assert "1970-01-01" in message


BEFORE, AFTER = "2026-09-21T14:00:00Z", "2026-09-21T14:30:00Z"
HUNG = "the engine hangs: since 2026-09-21T14:13:00Z it has made no token; it was ended"


def lapse(*, ready=NOW, reason="ContainersNotReady", **engine):
    """Return a status of an engine pod that is not Ready since `ready`."""
    conditions = [
        {"type": "Ready", "status": "False", "lastTransitionTime": ready, "reason": reason}
    ]
    return container_status(**engine) | {"conditions": conditions, "phase": "Running"}


def ran(since, message=HUNG):
    return {"terminated": TERMINATED | {"startedAt": since, "message": message}}


LAPSES = {
    "still runs": (
        {"started": True, "state": {"running": {"startedAt": BEFORE}}},
        "unless it generates tokens again",
    ),
    "was ended": ({"state": ran(BEFORE), "restartCount": 0}, HUNG),
    "starts anew": (
        {
            "started": False,
            "state": {"running": {"startedAt": AFTER}},
            "lastState": ran(BEFORE),
            "restartCount": 1,
        },
        HUNG,
    ),
    "waits to be started anew": (
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": ran(BEFORE),
            "restartCount": 1,
        },
        HUNG,
    ),
}


@pytest.mark.parametrize("role", ["prefill", "decode"])
@pytest.mark.parametrize("engine", LAPSES)
def test_an_engine_that_is_not_ready_any_more_is_named_until_it_is(role, engine):
    containers, words = LAPSES[engine]
    live = with_pod(running(), role, status=lapse(**containers))

    status, message = health_of(replace(live, routers=(report(),)))

    assert status == "False"
    assert f"no longer Ready: {role} pod tiny-{role}-0 since {NOW}: " in message
    assert words in message


NO_LAPSES = {
    "never Ready": {"started": False, "state": {"running": {"startedAt": NOW}}},
    "never Ready, and in a crash loop": {
        "started": False,
        "state": {"running": {"startedAt": AFTER}},
        "lastState": ran(NOW),
        "restartCount": 1,
    },
    "not started": {"state": {"waiting": {"reason": "ContainerCreating"}}},
    "on a lost node": {
        "reason": "NodeNotReady",
        "started": True,
        "state": {"running": {"startedAt": BEFORE}},
    },
    "senseless": {"started": True, "state": {"running": {"startedAt": "yesterday"}}},
}


@pytest.mark.parametrize("engine", NO_LAPSES)
def test_a_pod_of_which_nothing_says_that_it_was_ready_is_not_named(engine):
    live = with_pod(running(), "decode", status=lapse(**NO_LAPSES[engine]))

    assert health_of(replace(live, routers=(report(),)))[0] == "True"


def test_a_hung_and_an_ejected_engine_are_named_together():
    containers, words = LAPSES["still runs"]
    live = with_pod(running(), "decode", status=lapse(**containers))
    told = report(sick=(sick("tiny-prefill-0", Role.PREFILL),))

    status, message = health_of(replace(live, routers=(told,)))

    assert status == "False"
    assert words in message
    assert "send no requests to these Ready pods" in message
    assert "prefill pod tiny-prefill-0" in message


def test_without_a_router_the_health_of_engines_is_unknown():
    assert health_of(replace(running(), routers=()))[0] == "Unknown"


def with_good_answers(live):
    good = ended(NOW_S - 20, finished=40, good=40)
    return replace(live, routers=(report(finished=(good,)),))


def test_decode_pods_may_meet_the_slo_without_prefill_pods():
    alone = with_pod(with_good_answers(running()), "prefill")

    assert condition(status_of(alone), "SLOMet")["reason"] == "Met"


@pytest.mark.parametrize("component", ["decode", "router"])
def test_an_outage_is_no_time_in_which_the_slo_is_met(component):
    met = condition(status_of(with_pod(with_good_answers(running()), component)), "SLOMet")

    assert (met["status"], met["reason"]) == ("Unknown", "NotServing")
    assert component in met["message"]


def test_pods_of_an_older_generation_serve_and_may_meet_the_slo():
    live = with_good_answers(running())
    edit = pool({"engine": {"dtype": "bfloat16"}}, generation=2, status=live.pool["status"])

    assert condition(status_of(replace(live, pool=edit)), "SLOMet")["reason"] == "Met"


def init_status(**state):
    """Return a pod whose init container is at fault; its engine waits."""
    waiting = {
        "name": "engine",
        "ready": False,
        "state": {"waiting": {"reason": "PodInitializing"}},
    }
    launcher = {"name": "launcher", "ready": False} | state
    return {
        "phase": "Pending",
        "initContainerStatuses": [launcher],
        "containerStatuses": [waiting],
    }


def test_a_pod_that_is_being_given_its_launcher_is_in_no_trouble():
    status = init_status(state={"running": {"startedAt": NOW}})

    ready = condition(status_of(with_pod(running(), "decode", status=status)), "Ready")

    assert ready["reason"] == "Starting"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {
                "state": {
                    "waiting": {
                        "reason": "ImagePullBackOff",
                        "message": 'Back-off pulling image "nowhere/launcher:1"',
                    }
                }
            },
            'decode: ImagePullBackOff: Back-off pulling image "nowhere/launcher:1"',
        ),
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {
                    "terminated": {"exitCode": 1, "message": "cp: write error: no space left"}
                },
            },
            "decode: Crashing: launcher: cp: write error: no space left (exit code 1)",
        ),
    ],
)
def test_a_launcher_that_does_not_come_is_told_as_an_engine_that_does_not_start(state, message):
    live = with_pod(running(), "decode", status=init_status(**state))

    assert condition(status_of(live), "Ready")["message"] == message


TROUBLES = {
    "ImagePullBackOff": (
        container_status(
            state={
                "waiting": {
                    "reason": "ImagePullBackOff",
                    "message": 'Back-off pulling image "nowhere/engine:1"',
                }
            }
        ),
        'Back-off pulling image "nowhere/engine:1"',
    ),
    "Crashing": (
        container_status(
            state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
            lastState={
                "terminated": TERMINATED
                | {"message": "INFO loading\nmodel: /models/nope holds no config.json\n"}
            },
        ),
        "model: /models/nope holds no config.json",
    ),
    "OOMKilled": (
        container_status(
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        ),
        "raise resources.limits.memory",
    ),
    "CreateContainerConfigError": (
        container_status(
            state={
                "waiting": {
                    "reason": "CreateContainerConfigError",
                    "message": 'secret "hub" not found',
                }
            }
        ),
        'secret "hub" not found',
    ),
    "Error": (
        container_status(
            state={"running": {"startedAt": NOW}},
            lastState={"terminated": TERMINATED | {"message": "401: token hf_abcdefgh123456 bad"}},
        ),
        "401: token hf_*** bad",
    ),
    "NodeMissing": ({"conditions": []}, "node node-1 does not run the pod"),
    "Unschedulable": (
        {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
                }
            ]
        },
        "1 Insufficient nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("reason", TROUBLES)
def test_a_pods_trouble_stands_in_the_pools_ready_condition(reason):
    pod_status, message = TROUBLES[reason]
    live = with_pod(running(), "decode", status=pod_status)

    planned = plan(live, now_s=NOW_S)
    ready = condition(planned.status, "Ready")

    assert ready["status"] == "False"
    assert ready["reason"] == reason
    assert ready["message"].startswith(f"decode: {reason}")
    assert message in ready["message"]
    assert reason in {event.reason for event in planned.events}


def test_a_crash_loop_reads_the_same_between_its_tries():
    last = {"terminated": TERMINATED | {"message": "cannot load the model"}}
    states = [
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        {"running": {"startedAt": NOW}},
    ]

    told = [
        condition(status_of(with_pod(running(), "decode", status=status)), "Ready")
        for state in states
        for status in [container_status(state=state, lastState=last, restartCount=3)]
    ]

    assert told[0] == told[1]
    assert told[0]["message"] == "decode: Crashing: engine: cannot load the model (exit code 1)"


def test_a_quota_refusal_stands_in_ready_and_capacity_blocked():
    live = with_pod(running(), "prefill")
    live = replace(live, pods=tuple(p for p in live.pods if "prefill" not in p["metadata"]["name"]))
    refusal = 'pods "tiny-prefill-x" is forbidden: exceeded quota: gpus'
    deployment(live, "prefill")["status"] = {
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": refusal,
            }
        ]
    }

    status = status_of(live)

    assert refusal in condition(status, "Ready")["message"]
    blocked = condition(status, "CapacityBlocked")
    assert (blocked["status"], blocked["reason"]) == ("True", "PodsRefused")
    assert refusal in blocked["message"]


def test_a_namespace_that_lets_no_pod_have_the_nodes_folder_is_told_what_it_needs():
    live = with_pod(running(), "prefill")
    live = replace(live, pods=tuple(p for p in live.pods if "prefill" not in p["metadata"]["name"]))
    refusal = (
        'pods "tiny-prefill-x" is forbidden: violates PodSecurity "restricted:latest": restricted'
        ' volume types (volume "cache" uses restricted volume type "hostPath")'
    )
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    deployment(live, "prefill")["status"] = {"conditions": [failed | {"message": refusal}]}

    told = condition(status_of(live), "Ready")["message"]

    assert "label it pod-security.kubernetes.io/enforce=privileged, or use" in told
    assert refusal in told


def test_a_transition_time_moves_only_with_its_status():
    live = running()
    first = after(live, plan(live, now_s=NOW_S))
    broken = with_pod(first, "decode")

    later = status_of(broken, now_s=NOW_S + 60)

    assert condition(later, "Ready")["lastTransitionTime"] != NOW
    assert condition(later, "Accepted")["lastTransitionTime"] == NOW


def resting(live, *, second):
    """Return the pool a while later: every pod answers and there is nothing to do."""
    now_s = NOW_S + second
    engines = (
        sample("tiny-prefill-0", Role.PREFILL, running=0, sampled_s=now_s),
        sample("tiny-decode-0", Role.DECODE, running=0, sampled_s=now_s),
    )
    return replace(live, routers=(report(now_s=now_s),), engines=engines)


def test_a_pool_at_rest_writes_nothing_for_a_minute():
    first = resting(running(), second=0)
    live = after(first, plan(first, now_s=NOW_S))

    for second in range(5, 65, 5):
        live = resting(live, second=second)
        planned = plan(live, now_s=NOW_S + second)

        assert planned.status is None
        assert planned.memory_object is None
        assert planned.events == ()
        assert planned.costs == ()
        live = replace(live, memory=planned.memory)


def test_noise_below_the_rounding_is_no_news():
    def seen(p95_s):
        latency = Latency(
            sampled_s=NOW_S,
            ttft=Quantiles(p50_s=0.2, p95_s=p95_s, p99_s=0.6),
            tpot=Quantiles(p50_s=0.01, p95_s=0.012, p99_s=0.02),
        )
        return replace(running(), routers=(report(),), latency=latency)

    first = seen(0.41200)
    live = after(first, plan(first, now_s=NOW_S))
    same = replace(seen(0.41204), pool=live.pool)

    assert plan(first, now_s=NOW_S).status["slo"]["ttft"]["p95"] == "412ms"
    assert plan(same, now_s=NOW_S).status is None


def test_nothing_is_called_stale_before_the_pool_serves():
    fresh = condition(status_of(world()), "MetricsFresh")

    assert (fresh["status"], fresh["reason"]) == ("Unknown", "Starting")


def test_a_router_that_stays_silent_makes_the_metrics_stale():
    live = after(running(), plan(running(), now_s=NOW_S))

    soon = status_of(live, now_s=NOW_S + 30)
    planned = plan(live, now_s=NOW_S + 60)

    assert condition(soon, "MetricsFresh")["status"] == "Unknown"
    assert condition(planned.status, "MetricsFresh")["status"] == "False"
    assert any(event.type is EventType.WARNING for event in planned.events)


def test_a_clock_that_was_set_back_does_not_make_a_pool_new():
    live = after(running(), plan(running(), now_s=NOW_S))

    fresh = condition(status_of(live, now_s=NOW_S - 3600), "MetricsFresh")

    assert fresh["status"] == "False"


def test_metrics_that_stop_are_stale_at_once():
    live = replace(running(), routers=(report(),))
    live = after(live, plan(live, now_s=NOW_S))

    assert condition(status_of(live, now_s=NOW_S + 5), "MetricsFresh")["status"] == "False"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (MetricsSource.PROMETHEUS, "read from Prometheus"),
        (MetricsSource.DIRECT, "read from the pods: Prometheus has no fresh samples"),
    ],
)
def test_a_user_of_prometheus_is_told_whether_it_is_used(source, said):
    named = running({"metrics": {"prometheus": {"url": "http://prometheus.monitoring:9090"}}})
    passed_over = source is MetricsSource.DIRECT
    seen = replace(
        named,
        routers=(report(),),
        metrics_source=source,
        prometheus_passed_over=passed_over,
    )

    fresh = condition(status_of(seen), "MetricsFresh")

    assert fresh["status"] == "True"
    assert said in fresh["message"]


@pytest.mark.parametrize("metrics", [{}, {"source": "Direct"}])
def test_a_pool_with_source_direct_is_told_nothing_of_prometheus(metrics):
    seen = replace(running({"metrics": metrics}), routers=(report(),))

    assert "Prometheus" not in condition(status_of(seen), "MetricsFresh")["message"]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({}, "True", "Auto"),
        ({"scaling": {"mode": "Paused"}}, "False", "Paused"),
        ({"scaling": {"mode": "Recommend"}}, "False", "Recommend"),
        ({"prefill": {"management": "External"}}, "True", "External"),
    ],
)
def test_scaling_active_names_the_owner_of_the_counts(change, status, reason):
    found = condition(status_of(world(pool(change))), "ScalingActive")

    assert (found["status"], found["reason"]) == (status, reason)


def test_a_field_of_another_manager_is_reported_and_then_forgotten():
    live = running()
    sentence = "Service tiny-router exists already and does not belong to this pool."
    planned = plan(live, now_s=NOW_S)

    told = conclude(planned, WriteOutcome(blocked=sentence), world=live, now_s=NOW_S)
    healed = status_of(after(live, told), now_s=NOW_S + 5)

    assert condition(told.status, "FieldConflict")["status"] == "True"
    assert condition(told.status, "FieldConflict")["message"] == sentence
    assert condition(healed, "FieldConflict")["status"] == "False"


def test_a_field_taken_back_is_told():
    live = running()
    taken = WriteOutcome(taken=("Deployment tiny-decode: took back spec.replicas (by kubectl).",))

    told = conclude(plan(live, now_s=NOW_S), taken, world=live, now_s=NOW_S)

    assert [e.message for e in told.events if e.reason == "FieldTaken"] == list(taken.taken)


def test_a_change_stays_the_last_decision_while_its_pods_start():
    live = replace(running(), routers=(report(),))
    live = after(live, plan(live, now_s=NOW_S), routers=(report(),))
    edit = pool({"decode": {"minReplicas": 3}}, generation=2, status=live.pool["status"])
    changing = replace(live, pool=edit)

    change = plan(changing, now_s=NOW_S + 5)
    grown = after(changing, change, routers=(report(now_s=NOW_S + 10),))
    starting = tuple(pod(grown, "decode", index, ready=False) for index in (1, 2))
    waiting = status_of(replace(grown, pods=(*live.pods, *starting)), now_s=NOW_S + 10)

    decision = change.status["decision"]
    assert decision["decode"] == {"from": 1, "to": 3}
    assert "minReplicas" in decision["reason"]
    assert waiting["decision"] == decision
    assert [event.message for event in change.events if event.reason == "AtBound"]


def test_a_change_can_be_read_before_what_holds_its_role_back():
    live = running()
    changing = replace(live, pool=pool({"decode": {"minReplicas": 3}}, generation=2))
    change = plan(changing, now_s=NOW_S)
    held = after(changing, change)

    soon, later, set_back = (status_of(held, now_s=NOW_S + s)["decision"] for s in (1, 16, -60))

    assert "decode 1 -> 3" in change.status["decision"]["reason"]
    assert soon == change.status["decision"]
    assert "decode stays at 3" in later["reason"]
    assert "decode stays at 3" in set_back["reason"]


def test_what_holds_a_role_back_may_change_at_once():
    live = running()
    blind = after(live, plan(live, now_s=NOW_S + 30))
    assert "stays at 1" in blind.pool["status"]["decision"]["reason"]

    half = replace(blind, routers=(report(now_s=NOW_S + 35),), router_pods=2)
    one_of_two = status_of(half, now_s=NOW_S + 35)

    assert one_of_two["decision"] != blind.pool["status"]["decision"]


def test_a_step_taken_again_is_told_again():
    live = running({"decode": {"minReplicas": 3}})
    first = after(live, plan(live, now_s=NOW_S))
    deployment(first, "decode")["spec"]["replicas"] = 1

    again = plan(first, now_s=NOW_S + 60)

    assert again.status["decision"]["time"] == "2026-09-21T14:14:20Z"
    assert "AtBound" in {event.reason for event in again.events}


def test_a_recommendation_without_an_effect_is_told_once():
    live = running({"scaling": {"mode": "Recommend"}, "decode": {"minReplicas": 3}})
    live = replace(live, routers=(report(),))
    first = after(live, plan(live, now_s=NOW_S), routers=(report(),))

    again = plan(first, now_s=NOW_S + 5)

    assert again.decision.roles["decode"].to == 3
    assert again.status is None
    assert again.events == ()


def test_the_status_has_only_fields_of_its_schema():
    status = status_of(replace(running(), routers=(report(),)))

    assert parse_status({"status": status}).to_object() == status


def budget_told(live, *, late, before=None):
    """Return the text on the budget after ten thousand requests, so many of them late."""
    counts = {"finished": (10_000,), "good": (10_000 - late,)}
    hourly = {f"hourly_{name}": column for name, column in counts.items()}
    at = {"folded_s": int(NOW_S) - 1, "minute": int(NOW_S) // 60, "hour": int(NOW_S) // 3600}
    budget = ErrorBudget(**at, **counts, **hourly)
    slo = {} if before is None else {"slo": {"errorBudgetRemaining": before}}
    live = replace(
        live,
        pool=live.pool | {"status": live.pool["status"] | slo},
        routers=(report(),),
        memory=Memory(promise=Promise(budget=budget)),
    )
    return status_of(live).get("slo", {}).get("errorBudgetRemaining")


def strict():
    return running({"slo": {"attainment": "99%"}})


@pytest.mark.parametrize(("late", "share"), [(0, "100%"), (63, "37%"), (100, "0%"), (240, "-140%")])
def test_what_is_left_of_the_error_budget_is_told_with_its_window(late, share):
    told = budget_told(strict(), late=late)

    assert told == {"share": share, "window": "1h", "share30d": share}


@pytest.mark.parametrize(
    ("before", "after"), [("37%", "37%"), ("38%", "38%"), ("36%", "37%"), ("some", "37%")]
)
def test_the_error_budget_keeps_what_it_said_while_it_is_within_one_percent(before, after):
    told = {"share": before, "window": "1h", "share30d": before}
    loose = running({"slo": {"attainment": "95%"}})

    # 313 of the 500 that may be late: 37.4 % are left.
    now = budget_told(loose, late=313, before=told)

    assert now == {"share": after, "window": "1h", "share30d": after}


def test_nothing_is_told_of_the_budget_of_a_pool_whose_requests_never_ended():
    live = replace(running(), routers=(report(),))

    assert "errorBudgetRemaining" not in status_of(live).get("slo", {})


def test_a_condition_that_a_newer_operator_left_behind_is_no_event() -> None:
    left = Condition(
        type="Pampered",
        status="False",
        observed_generation=1,
        last_transition_time="2026-11-24T10:00:00Z",
        reason="Anything",
        message="A newer operator said so.",
    )

    assert events_of(PoolStatus(), PoolStatus(conditions=[left])) == ()
