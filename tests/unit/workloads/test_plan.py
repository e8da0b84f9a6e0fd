"""The tick as a whole: total, stable, restart-safe, and harmless where the spec is wrong."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import ArrivalSecond
from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import WriteOutcome, conclude, plan
from tandem_operator.workloads.stored_memory import memory_to_json
from tests.unit.workloads.cluster import (
    INSTALLATION,
    NOW_S,
    after,
    deployment,
    pod,
    pool,
    report,
    running,
    world,
)


def accepted(planned):
    (found,) = [each for each in planned.status["conditions"] if each["type"] == "Accepted"]
    return found


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("abc/%", max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
PARTS = st.sampled_from(
    [
        ("model",),
        ("slo",),
        ("slo", "ttft"),
        ("engine",),
        ("engine", "extraArgs"),
        ("prefill",),
        ("prefill", "podTemplate", "spec"),
        ("prefill", "podTemplate", "spec", "containers"),
        ("prefill", "podTemplate", "spec", "volumes"),
        ("prefill", "podTemplate", "spec", "terminationGracePeriodSeconds"),
        ("decode", "minReplicas"),
        ("router", "podTemplate"),
        ("scaling",),
    ]
)


@given(PARTS, JSON, st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_spec_makes_a_plan_fail(path: tuple[str, ...], value: Any, live: bool) -> None:
    change: Any = value
    for part in reversed(path):
        change = {part: change}
    body = pool(change)
    there = replace(running(), pool=body) if live else world(body)

    planned = plan(there, now_s=NOW_S)

    assert planned.status is not None
    assert (planned.decision is None) == (accepted(planned)["status"] == "False")
    assert planned == plan(there, now_s=NOW_S)


BAD = {
    "engine.image": {"engine": {"device": "NVIDIA"}},
    "prefill.podTemplate.spec.containers[0]": {
        "prefill": {"podTemplate": {"spec": {"containers": [{"name": "vllm", "tty": True}]}}}
    },
    "decode.podTemplate.spec.containers[1].name": {
        "decode": {
            "podTemplate": {
                "spec": {"containers": [{"name": "engine"}, {"name": "engine", "tty": True}]}
            }
        }
    },
    "router.podTemplate.spec.terminationGracePeriodSeconds": {
        "router": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 5}}}
    },
    "decode.podTemplate.spec.initContainers[0]": {
        "decode": {"podTemplate": {"spec": {"initContainers": [{"name": "engine"}]}}}
    },
    "prefill.podTemplate.spec.containers must be": {
        "prefill": {"podTemplate": {"spec": {"containers": None}}}
    },
    "decode.podTemplate.spec.initContainers must be": {
        "decode": {"podTemplate": {"spec": {"initContainers": None}}}
    },
    "decode.engine.resourceClaimTemplateName": {
        "decode": {"engine": {"resourceClaimTemplateName": "four-gpus"}}
    },
    "decode.resources.limits.memory": {"decode": {"resources": {"limits": {"memory": "1Mi"}}}},
    "router.resources.limits.memory": {"router": {"resources": {"limits": {"memory": 1000000}}}},
    "slo.attainment": {"slo": {"attainment": "101%"}},
}


def test_a_pool_without_any_router_image_is_refused_by_name():
    installation = replace(INSTALLATION, router_image="")
    named = pool({"router": {"image": "registry.example.com/router:1"}})

    refused = plan(replace(running(), installation=installation), now_s=NOW_S)
    taken = plan(replace(running(), pool=named, installation=installation), now_s=NOW_S)

    assert "router.image is needed" in accepted(refused)["message"]
    assert accepted(taken)["status"] == "True"


def test_a_pool_is_refused_where_the_operator_has_no_launcher_image():
    installation = replace(INSTALLATION, launcher_image="")

    refused = plan(replace(running(), installation=installation), now_s=NOW_S)

    assert "engine: no pod can start" in accepted(refused)["message"]
    assert "TANDEM_LAUNCHER_IMAGE" in accepted(refused)["message"]


@pytest.mark.parametrize("field", BAD)
def test_a_spec_that_cannot_run_is_refused_by_name_and_changes_nothing(field):
    installation = replace(INSTALLATION, engine_image_gpu="")
    live = running(prefill=2, decode=2)
    edit = pool(BAD[field], generation=2, status=live.pool["status"])

    planned = plan(replace(live, pool=edit, installation=installation), now_s=NOW_S)

    assert field in accepted(planned)["message"]
    assert accepted(planned)["status"] == "False"
    assert (planned.children, planned.replicas, planned.costs) == ((), {}, ())
    assert planned.keep is None
    assert planned.status["observedGeneration"] == 2
    assert planned.status["decode"]["ready"] == 2
    assert [event.reason for event in planned.events].count("InvalidSpec") == 1


def test_a_corrected_spec_runs_again():
    live = running()
    bad = replace(live, pool=pool(BAD["slo.attainment"], status=live.pool["status"]))
    refused = after(bad, plan(bad, now_s=NOW_S))

    planned = plan(replace(refused, pool=pool(status=refused.pool["status"])), now_s=NOW_S)

    assert accepted(planned)["status"] == "True"
    assert planned.children


def test_a_plan_that_was_carried_out_leaves_nothing_to_do():
    live = replace(running(), routers=(report(),))
    first = plan(live, now_s=NOW_S)
    settled = after(live, first, routers=(report(),))

    again = plan(settled, now_s=NOW_S)

    assert again.children == first.children
    assert again.status is None
    assert again.events == ()


def test_a_pod_monitor_is_pruned_once_its_kind_is_gone():
    installation = replace(INSTALLATION, pod_monitors=True)
    with_monitor = plan(world(installation=installation), now_s=NOW_S)

    without = plan(world(), now_s=NOW_S)

    assert ("PodMonitor", "tiny") in with_monitor.keep
    assert ("PodMonitor", "tiny") not in without.keep


def test_the_memory_is_never_pruned():
    assert ("ConfigMap", "tiny-memory") in plan(running(), now_s=NOW_S + 1).keep


def busy(now_s):
    arrivals = (
        ArrivalSecond(
            second=int(now_s), requests=(1, 0, 0), prompt_tokens=(9, 0, 0), cached_tokens=0
        ),
    )
    return (report(now_s=now_s, arrivals=arrivals),)


def test_the_memory_of_a_busy_pool_is_written_every_half_minute():
    live = after(running(), plan(running(), now_s=NOW_S))

    due = [
        second
        for second in range(5, 65, 5)
        if plan(replace(live, routers=busy(NOW_S + second)), now_s=NOW_S + second).memory_object
    ]

    assert due[0] == 30


def test_a_restarted_operator_decides_as_one_that_was_not():
    live = replace(running(), routers=busy(NOW_S))
    first = plan(live, now_s=NOW_S + 40)
    kept = after(live, first, routers=busy(NOW_S + 45))
    restarted = replace(kept, memory=None)

    assert plan(restarted, now_s=NOW_S + 45) == plan(kept, now_s=NOW_S + 45)


SLOWER_THAN_NEVER = Memory(correction=Correction(slowdown={Role.PREFILL: -1.0}))


def remembering(live, text):
    """Return the pool after a restart of the operator, with `text` as its stored memory."""
    for body in live.children:
        if body["metadata"]["name"] == "tiny-memory":
            body["data"]["memory.json"] = text
    return replace(live, memory=None)


def told(planned):
    return {event.reason for event in planned.events}


@pytest.mark.parametrize(
    "text", ['{"version": 999}', "[" * 100_000, memory_to_json(SLOWER_THAN_NEVER)]
)
def test_a_stored_memory_of_no_use_starts_anew_is_told_and_replaced(text):
    planned = plan(remembering(running(), text), now_s=NOW_S)

    anew = plan(replace(running(), memory=Memory()), now_s=NOW_S)
    assert planned.decision == anew.decision
    assert "MemoryUnreadable" in told(planned)
    assert planned.memory_object["data"]["memory.json"] == memory_to_json(planned.memory)


def test_a_memory_of_no_use_is_told_also_where_a_write_had_an_outcome():
    live = remembering(running(), '{"version": 999}')
    planned = plan(live, now_s=NOW_S)

    concluded = conclude(planned, WriteOutcome(taken=("a field",)), world=live, now_s=NOW_S)

    assert {"MemoryUnreadable", "FieldTaken"} <= told(concluded)


def test_a_memory_of_this_process_that_cannot_be_decided_with_is_dropped_and_told_as_well():
    planned = plan(replace(running(), memory=SLOWER_THAN_NEVER), now_s=NOW_S)

    anew = plan(replace(running(), memory=Memory()), now_s=NOW_S)
    assert planned.decision == anew.decision
    assert "MemoryUnreadable" in told(planned)
    assert planned.memory_object["data"]["memory.json"] == memory_to_json(planned.memory)


def test_what_cannot_be_decided_without_a_memory_either_is_an_error(monkeypatch):
    def fails(*_told, **_more):
        raise ValueError("math domain error")

    monkeypatch.setattr("tandem_operator.workloads.pass_plan.decide", fails)

    with pytest.raises(ValueError, match="math domain"):
        plan(replace(running(), memory=Memory()), now_s=NOW_S)


def test_a_pod_of_any_shape_is_read():
    live = running()
    odd = pod(live, "decode", 1, ready=False)
    odd["status"] = {"containerStatuses": [{"name": "engine"}], "conditions": [{}]}

    assert plan(replace(live, pods=(*live.pods, odd)), now_s=NOW_S).decision is not None


def test_a_refused_pass_shows_the_count_that_another_owner_set():
    stored = running()
    raw = replace(stored, children=copy.deepcopy(stored.children))
    deployment(raw, "prefill")["spec"]["replicas"] = 3

    planned = plan(stored, now_s=NOW_S)
    refused = conclude(planned, WriteOutcome(refused="no"), world=raw, now_s=NOW_S)

    assert refused.status["prefill"]["current"] == 3
