"""The writers of replica counts, the moments of writing, and the pods that leave first."""

import json
from dataclasses import replace

import pytest

from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Leg
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.workloads.observed.deletion_cost import LEAVING_COST, UNKNOWN_LOAD_COST
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import (
    NOW_S,
    after,
    child,
    deployment,
    pod,
    pool,
    report,
    running,
    sample,
    world,
)

PACE = TimedDecodePace((0.005, 0.0001, 0.0), 123_456.0, 16, output_tokens=98.0)
PAUSED = {"scaling": {"mode": "Paused"}}
RECOMMEND = {"scaling": {"mode": "Recommend"}}
EXTERNAL = {"prefill": {"management": "External"}, "decode": {"management": "External"}}


def edited(live, *changes):
    return replace(live, pool=pool(*changes, generation=2, status=live.pool.get("status")))


@pytest.mark.parametrize("mode", ["Auto", "Paused", "Recommend"])
def test_a_new_pool_starts_with_its_minimum_in_every_mode(mode):
    least = {"prefill": {"minReplicas": 3}, "decode": {"minReplicas": 2}}

    made = plan(world(pool(least, {"scaling": {"mode": mode}})), now_s=NOW_S)

    assert made.replicas == {"prefill": 3, "decode": 2, "router": 1}


def test_a_role_of_another_owner_is_never_written():
    made = plan(world(pool({"prefill": {"management": "External", "minReplicas": 2}})), now_s=NOW_S)

    assert set(made.replicas) == {"decode", "router"}


@pytest.mark.parametrize("handover", [PAUSED, RECOMMEND, EXTERNAL])
def test_handing_over_at_five_keeps_five(handover):
    least = {"prefill": {"minReplicas": 5}, "decode": {"minReplicas": 5}}
    live = running(least, prefill=5, decode=5)
    live = after(live, plan(live, now_s=NOW_S))

    handed = edited(live, handover)
    made = plan(handed, now_s=NOW_S + 5)
    later = after(handed, made)

    assert not {"prefill", "decode"} & set(made.replicas)
    for role in Role:
        assert deployment(later, role)["spec"]["replicas"] == 5


def test_a_paused_pool_ignores_new_bounds():
    live = edited(running(prefill=2, decode=2), PAUSED, {"decode": {"minReplicas": 4}})

    made = plan(live, now_s=NOW_S)

    assert made.replicas == {}


def test_a_recommendation_stays_visible_while_nothing_is_written():
    live = edited(running(), RECOMMEND, {"decode": {"minReplicas": 4}})

    made = plan(live, now_s=NOW_S)

    assert "decode" not in made.replicas
    assert made.status["decode"]["desired"] == 4
    assert made.status["decode"]["current"] == 1


def test_a_scaled_router_goes_back_to_what_the_pool_says():
    live = running()
    deployment(live, "router")["spec"]["replicas"] = 3

    assert plan(live, now_s=NOW_S).replicas["router"] == 1


def busy(share, *, most=4, replicas=2):
    live = running({"router": {"minReplicas": 2, "maxReplicas": most}})
    deployment(live, "router")["spec"]["replicas"] = replicas
    told = tuple(report(router=f"r{n}", busy_share=share) for n in range(replicas))
    return replace(live, routers=told, router_pods=replicas)


def test_busy_routers_get_another_one_and_the_pool_says_so():
    live = replace(busy(0.72), memory=Memory(pace=PACE))

    made = plan(live, now_s=NOW_S)

    assert made.replicas["router"] == 3
    assert made.status["router"] == {"current": 2, "ready": 1, "desired": 3, "busy": "70.0%"}
    (event,) = [each for each in made.events if each.reason == "RoutersScaled"]
    assert event.message == "routers 2 -> 3: each router uses 72 % of a core on average"
    settings = child(made.children, "ConfigMap", "tiny-router")["data"]["router.json"]
    assert json.loads(settings)["decode"]["routers"] == 3


def test_routers_stay_within_what_the_pool_says():
    assert plan(busy(0.9, most=2), now_s=NOW_S).replicas["router"] == 2
    (event,) = [
        each
        for each in plan(busy(0.1, replicas=5), now_s=NOW_S).events
        if each.reason == "RoutersScaled"
    ]
    assert event.message == "routers 5 -> 4: spec.router allows 2 to 4 replicas"


def test_two_routers_are_the_least_unless_said():
    body = pool()
    del body["spec"]["router"]

    made = plan(world(body), now_s=NOW_S)

    assert made.replicas["router"] == 2
    assert budgets(made)["router"] == 1


def test_a_deleted_deployment_is_made_again_with_its_minimum():
    live = running(prefill=2, decode=2)
    left = [each for each in live.children if each["metadata"]["name"] != "tiny-decode"]

    made = plan(replace(live, children=tuple(left)), now_s=NOW_S)

    assert made.replicas["decode"] == 1


def shrinking(*, engines=(), pods=None):
    live = running({"decode": {"minReplicas": 3}}, decode=3)
    bounds = {"decode": {"minReplicas": 1, "maxReplicas": 1}}
    live = replace(edited(live, bounds), engines=engines)
    return replace(live, pods=live.pods if pods is None else pods(live))


def test_the_emptiest_pod_leaves_first():
    engines = (
        sample("tiny-decode-0", Role.DECODE, running=7),
        sample("tiny-decode-1", Role.DECODE, running=0, waiting=1),
        sample("tiny-decode-2", Role.DECODE, running=3, waiting=9),
    )

    made = plan(shrinking(engines=engines), now_s=NOW_S)

    costs = {each.pod: each.cost for each in made.costs}
    assert made.replicas["decode"] == 1
    assert sorted(costs, key=costs.get) == ["tiny-decode-1", "tiny-decode-0", "tiny-decode-2"]


def test_a_pod_of_unknown_load_leaves_last():
    engines = (
        sample("tiny-decode-0", Role.DECODE, running=90),
        sample("tiny-decode-2", Role.DECODE, running=0),
    )

    costs = {each.pod: each.cost for each in plan(shrinking(engines=engines), now_s=NOW_S).costs}

    assert costs == {"tiny-decode-0": 90, "tiny-decode-1": UNKNOWN_LOAD_COST, "tiny-decode-2": 0}


def test_a_cost_that_stands_already_is_not_written_again():
    key = "controller.kubernetes.io/pod-deletion-cost"

    def annotated(live):
        _, *rest = [each for each in live.pods if "decode" in each["metadata"]["name"]]
        marked = pod(live, "decode", 0)
        marked["metadata"]["annotations"][key] = "2"
        return (marked, *rest)

    engines = tuple(sample(f"tiny-decode-{i}", Role.DECODE, running=2) for i in range(3))
    made = plan(shrinking(engines=engines, pods=annotated), now_s=NOW_S)

    assert {each.pod for each in made.costs} == {"tiny-decode-1", "tiny-decode-2"}


def test_no_cost_is_written_without_a_shrink():
    engines = (sample("tiny-decode-0", Role.DECODE, running=2),)
    worth = report(cache_worth_tokens={"tiny-prefill-0": 5000})

    made = plan(replace(running(), engines=engines, routers=(worth,)), now_s=NOW_S)

    assert made.costs == ()


def prefill_costs(*worth, loads=(0, 0, 0), **more):
    """Return the costs of three prefill pods, of which two go, by what their caches saved."""
    live = running({"prefill": {"minReplicas": 3}}, prefill=3)
    live = edited(live, {"prefill": {"minReplicas": 1, "maxReplicas": 1}})
    engines = tuple(
        sample(f"tiny-prefill-{i}", Role.PREFILL, running=load) for i, load in enumerate(loads)
    )
    # Each request took 500 tokens of work.
    leg = Leg("tiny-prefill-0", Role.PREFILL, 9.0, 20, 30_000, 20_000, 0.0, 0)
    routers = tuple(
        report(router=f"tiny-router-{i}", cache_worth_tokens=each, legs=(leg,))
        for i, each in enumerate(worth)
    )
    made = plan(replace(live, engines=engines, routers=routers, **more), now_s=NOW_S)
    assert made.replicas["prefill"] == 1
    return {each.pod: each.cost for each in made.costs}


def test_the_prefill_pod_whose_cache_saved_least_leaves_first():
    costs = prefill_costs(
        {"tiny-prefill-0": 4000, "tiny-prefill-1": 1000},
        {"tiny-prefill-0": 1000, "tiny-prefill-2": 1500},
        loads=(0, 0, 1),
    )

    assert costs == {"tiny-prefill-0": 10, "tiny-prefill-1": 2, "tiny-prefill-2": 4}


def test_without_saved_tokens_the_emptiest_prefill_pod_leaves_first():
    costs = prefill_costs({}, loads=(2, 0, 1))

    assert costs == {"tiny-prefill-0": 2, "tiny-prefill-1": 0, "tiny-prefill-2": 1}


def test_a_cache_that_saves_much_does_not_keep_a_pod_on_a_node_being_emptied():
    costs = prefill_costs({"tiny-prefill-0": 10**15}, cordoned=frozenset(("node-1",)))

    assert set(costs.values()) == {LEAVING_COST}


def test_no_worth_is_more_than_that_of_a_pod_of_unknown_load():
    costs = prefill_costs({"tiny-prefill-0": 2**53}, loads=(0, 0))

    assert costs["tiny-prefill-0"] < costs["tiny-prefill-2"] == UNKNOWN_LOAD_COST


@pytest.mark.parametrize("handover", [PAUSED, EXTERNAL])
def test_no_deletion_cost_is_written_for_a_count_of_another_owner(handover):
    engines = tuple(sample(f"tiny-decode-{i}", Role.DECODE, running=2) for i in range(3))
    live = shrinking(engines=engines)
    lower = {"decode": {"minReplicas": 1, "maxReplicas": 1}}

    assert plan(edited(live, lower, handover), now_s=NOW_S).costs == ()


def emptying(live, *components, nodes=("node-1",), **more):
    """Return the pool with the first pods of some components on nodes that are being emptied."""
    pods = [
        each | {"spec": {"nodeName": "node-2"}}
        if each["metadata"]["labels"]["tandem-inference.io/role"] not in components
        else each
        for each in live.pods
    ]
    return replace(live, pods=tuple(pods), cordoned=frozenset(nodes), **more)


def budgets(made):
    return {
        each["metadata"]["name"].removeprefix("tiny-"): each["spec"]["maxUnavailable"]
        for each in made.children
        if each["kind"] == "PodDisruptionBudget"
    }


def test_no_eviction_takes_the_only_pod_of_a_component_and_one_at_a_time_of_several():
    made = plan(emptying(running({"decode": {"minReplicas": 2}}, decode=2)), now_s=NOW_S)

    assert budgets(made) == {"prefill": 0, "decode": 1, "router": 0}


@pytest.mark.parametrize("handover", [PAUSED, RECOMMEND, EXTERNAL])
def test_where_tandem_may_not_bring_another_pod_no_budget_pins_the_only_one(handover):
    live = emptying(running())

    assert budgets(plan(edited(live, handover), now_s=NOW_S + 5))["prefill"] == 1


def test_nor_where_it_may_not_read_which_nodes_are_being_emptied():
    made = plan(replace(running(), cordoned=None), now_s=NOW_S)

    assert set(budgets(made).values()) == {1}


@pytest.mark.parametrize("component", ["prefill", "decode", "router"])
def test_the_only_pod_on_a_node_being_emptied_is_relieved_and_then_the_victim(component):
    live = emptying(running(), component)
    first = plan(live, now_s=NOW_S)
    begun = after(live, first, cordoned=live.cordoned)
    second = plan(with_another(begun, component, ready=False), now_s=NOW_S + 5)
    waiting = after(begun, second, cordoned=live.cordoned)
    third = plan(with_another(waiting, component, ready=True), now_s=NOW_S + 10)

    assert [made.replicas[component] for made in (first, second, third)] == [2, 2, 1]
    assert [budgets(made)[component] for made in (first, second, third)] == [0, 0, 0]
    costs = {cost.pod: cost.cost for cost in third.costs}
    assert costs[f"tiny-{component}-0"] == LEAVING_COST < costs[f"tiny-{component}-1"]


def with_another(live, component, *, ready):
    another = pod(live, component, 1, ready=ready, node="node-2")
    return replace(live, pods=(*live.pods, another))


def test_a_drain_that_the_budget_does_not_allow_is_told():
    live = emptying(running({"scaling": {"gpuBudget": 2}}), "prefill")

    status = plan(live, now_s=NOW_S).status
    blocked = next(each for each in status["conditions"] if each["type"] == "CapacityBlocked")

    assert (blocked["status"], blocked["reason"]) == ("True", "DrainBlocked")
    assert "tiny-prefill-0" in blocked["message"]
    assert "raise it by 1" in blocked["message"]
