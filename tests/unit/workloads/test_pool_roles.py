"""PoolRoles: which exist, what their fleets get, and what their status tells."""

from dataclasses import replace

import pytest

from tandem_operator.core.role import Role
from tandem_operator.workloads.observed.asked_counts import AskedCount, asked_counts
from tandem_operator.workloads.observed.live_objects import see
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.pool_spec import policy_of
from tandem_operator.workloads.world import Rival
from tests.unit.workloads.cluster import (
    INSTALLATION,
    NOW_S,
    after,
    child,
    deployment,
    pod,
    pool,
    running,
    world,
)

EXTERNAL = {"decode": {"management": "External"}}
SERVED = replace(INSTALLATION, pool_roles=True)


def served(*changes, **counts):
    """Return a running pool on an API server with PoolRoles, one for each External role."""
    live = replace(running(*changes, **counts), installation=SERVED)
    return after(live, plan(live, now_s=NOW_S))


def role_of(live, role="decode"):
    return child(live.children, "PoolRole", f"tiny-{role}")


def asking(live, count, role="decode"):
    """Return the world after a user has scaled the PoolRole."""
    role_of(live, role)["spec"] = {"replicas": count}
    return replace(live, asked={**live.asked, role: count})


def report_of(made):
    [report] = made.roles
    return report


def condition_of(made):
    [condition] = report_of(made).status["conditions"]
    return condition


def test_a_pool_role_exists_for_external_roles_alone():
    made = plan(world(pool(EXTERNAL), installation=SERVED), now_s=NOW_S)

    names = [each["metadata"]["name"] for each in made.children if each["kind"] == "PoolRole"]
    assert names == ["tiny-decode"]
    assert "spec" not in child(made.children, "PoolRole", "tiny-decode")


def test_an_api_server_without_the_kind_gets_none_and_loses_none():
    made = plan(world(pool(EXTERNAL)), now_s=NOW_S)

    assert not [each for each in made.children if each["kind"] == "PoolRole"]
    assert ("PoolRole", "tiny-decode") in made.keep


def test_a_role_that_is_managed_again_loses_its_pool_role():
    live = served(EXTERNAL, decode=3)

    made = plan(replace(live, pool=pool()), now_s=NOW_S)

    assert ("PoolRole", "tiny-decode") not in made.keep


def test_without_an_asked_count_the_pool_role_copies_the_deployments_count():
    live = served(EXTERNAL, decode=3)

    made = plan(live, now_s=NOW_S)

    assert "decode" not in made.replicas
    assert made.mirrored == {"decode": 3}
    assert condition_of(made)["reason"] == "NotAsked"
    role_of(live)["spec"] = {"replicas": 3}
    assert plan(live, now_s=NOW_S).mirrored == {}


@pytest.mark.parametrize("mode", ["Auto", "Recommend", "Paused"])
def test_what_is_asked_is_written_in_every_mode(mode):
    live = asking(served(EXTERNAL, {"scaling": {"mode": mode}}, decode=2), 5)

    made = plan(live, now_s=NOW_S)

    assert made.replicas["decode"] == 5
    assert made.mirrored == {}
    assert condition_of(made)["reason"] == "InForce"
    assert made.status["decode"]["current"] == 5


@pytest.mark.parametrize(
    ("count", "given", "limit"),
    [
        (12, 8, "decode.maxReplicas"),
        (9, 8, "decode.maxReplicas"),
        (0, 2, "decode.minReplicas"),
        (1, 2, "decode.minReplicas"),
    ],
)
def test_what_is_asked_is_held_within_the_pools_bounds(count, given, limit):
    live = asking(served(EXTERNAL, {"decode": {"minReplicas": 2}}, decode=3), count)

    made = plan(live, now_s=NOW_S)

    assert made.replicas["decode"] == given
    told = condition_of(made)
    assert (told["status"], told["reason"]) == ("False", "Limited")
    assert limit in told["message"]
    [event] = report_of(made).events
    assert event.message == told["message"]


def seen_with(*, decode, prefill=1, terminating=0, leaving="prefill", ask, budget):
    live = running(EXTERNAL, decode=decode, prefill=prefill)
    gone = tuple(
        pod(live, leaving, 90 + index, deletionTimestamp="2026-09-21T14:13:20Z")
        for index in range(terminating)
    )
    seen = see(replace(live, pods=live.pods + gone), PoolName("serving", "tiny", "8f0c"))
    spec = replace(policy_of(parsed(budget).spec))
    return asked_counts({"decode": ask}, spec, seen, rollout_gpus=0)[Role.DECODE]


def parsed(budget):
    from tandem_operator.api import parse_pool

    return parse_pool(pool(EXTERNAL, {"scaling": {"gpuBudget": budget}}))


def test_growth_stops_at_the_gpu_budget():
    found = seen_with(decode=2, ask=6, budget=5)

    assert found == AskedCount(asked=6, to=4, limit="scaling.gpuBudget")


def test_growth_waits_for_gpus_of_pods_on_their_way_out():
    found = seen_with(decode=2, ask=4, budget=5, terminating=1)

    assert found == AskedCount(asked=4, to=3, limit="scaling.gpuBudget")


def test_growth_waits_for_gpus_of_its_own_pods_on_their_way_out():
    found = seen_with(decode=2, ask=4, budget=5, terminating=1, leaving="decode")

    assert found == AskedCount(asked=4, to=3, limit="scaling.gpuBudget")


def test_pods_on_their_way_out_of_the_other_role_take_no_replica():
    found = seen_with(decode=4, ask=4, budget=5, terminating=1)

    assert found == AskedCount(asked=4, to=4)


def rolling(*changes, budget):
    """Return an edit of decode (Managed), while the owner of prefill wants 3 replicas, not 2."""
    external = ({"prefill": {"management": "External"}}, {"scaling": {"gpuBudget": budget}})
    live = asking(served(*external, *changes, prefill=2, decode=2), 3, "prefill")
    node = {"podTemplate": {"spec": {"nodeSelector": {"zone": "b"}}}}
    return replace(live, pool=pool(*external, *changes, {"decode": node}, generation=2))


def test_growth_leaves_a_rollout_the_replica_that_was_given_up_for_it():
    live = rolling(budget=4)
    first = plan(live, now_s=NOW_S)
    assert (first.replicas["prefill"], first.replicas["decode"]) == (2, 1)

    deployment(live, "decode")["spec"]["replicas"] = 1
    without = tuple(each for each in live.pods if each["metadata"]["name"] != "tiny-decode-1")
    made = plan(replace(live, pods=without, memory=first.memory), now_s=NOW_S + 5.0)

    assert (made.replicas["prefill"], made.replicas["decode"]) == (2, 1)
    assert "scaling.gpuBudget" in condition_of(made)["message"]


def test_growth_takes_what_a_rollout_does_not_need():
    made = plan(rolling(budget=7), now_s=NOW_S)

    assert made.replicas["prefill"] == 3


def test_the_fleet_of_a_managed_role_is_decided_with_the_asked_count_in_mind():
    bounds = {"scaling": {"gpuBudget": 6}, "prefill": {"minReplicas": 1}}
    live = asking(served(EXTERNAL, bounds, prefill=2, decode=2), 4)

    made = plan(live, now_s=NOW_S)

    assert made.replicas["prefill"] + made.replicas["decode"] <= 6


def test_the_emptiest_pods_leave_first_when_an_owner_asks_for_fewer():
    live = asking(served(EXTERNAL, decode=3), 1)

    made = plan(live, now_s=NOW_S)

    assert made.replicas["decode"] == 1
    assert {cost.pod for cost in made.costs} == {
        each["metadata"]["name"]
        for each in live.pods
        if each["metadata"]["labels"]["tandem-inference.io/role"] == "decode"
    }


def test_a_drain_may_take_the_only_pod_of_a_role_that_its_owner_sizes():
    live = asking(replace(served(EXTERNAL), cordoned=frozenset()), 1)

    made = plan(live, now_s=NOW_S)

    budget = child(made.children, "PodDisruptionBudget", "tiny-decode")
    assert budget["spec"]["maxUnavailable"] == 1


def test_a_rival_of_the_deployment_is_left_alone_and_told_of():
    live = asking(served(EXTERNAL, decode=2), 4)
    rivals = {"decode": Rival("HorizontalPodAutoscaler old", left_alone=True)}

    made = plan(replace(live, rivals=rivals), now_s=NOW_S)

    assert "decode" not in made.replicas
    told = condition_of(made)
    assert told["reason"] == "Contested"
    assert "HorizontalPodAutoscaler old" in told["message"]


def test_a_pool_that_is_not_accepted_says_so_on_its_pool_roles():
    live = asking(served(EXTERNAL, decode=2), 4)
    broken = pool(EXTERNAL, {"router": {"podTemplate": {"spec": {"initContainers": None}}}})

    made = plan(replace(live, pool=broken), now_s=NOW_S)

    assert made.replicas == {}
    assert condition_of(made)["reason"] == "PoolNotAccepted"


def test_a_status_that_says_so_already_is_not_written_again():
    live = asking(served(EXTERNAL, decode=2), 2)
    deployment(live, "decode")["status"] = {"replicas": 2}
    made = plan(live, now_s=NOW_S)
    status = report_of(made).status
    assert status["replicas"] == 2
    assert status["recommended"] == made.decision.roles[Role.DECODE].to
    assert status["selector"] == "tandem-inference.io/pool=tiny,tandem-inference.io/role=decode"

    role_of(live)["status"] = status
    again = plan(live, now_s=NOW_S + 5.0)

    assert report_of(again).status is None
    assert report_of(again).events == ()


def test_a_status_says_which_generation_it_describes():
    live = asking(served(EXTERNAL, decode=2), 4)
    role_of(live)["metadata"]["generation"] = 7

    made = plan(live, now_s=NOW_S)

    assert report_of(made).status["observedGeneration"] == 7
    assert condition_of(made)["observedGeneration"] == 7


def test_an_autoscaler_without_a_target_is_told_of():
    live = replace(served(), waiting={"decode": "web"})

    made = plan(live, now_s=NOW_S)

    [told] = [each for each in made.status["conditions"] if each["type"] == "ScalingActive"]
    assert (told["status"], told["reason"]) == ("True", "AutoscalerWaits")
    assert "HorizontalPodAutoscaler web" in told["message"]
    assert [each.reason for each in made.events if each.reason == "AutoscalerWaits"]
