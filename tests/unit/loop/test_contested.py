"""Counts and names that another program claims."""

import pytest

from tests.unit.loop.store import own, owned_by

PREFILL, DECODE = "tiny-prefill", "tiny-decode"


def autoscale(store, replicas, name=PREFILL):
    """Set a Deployment's replicas, as an autoscaler does."""
    found = store.kinds["deployments"][name]
    found["spec"]["replicas"] = replicas
    own(found, "kube-controller-manager")
    found["metadata"]["managedFields"][0]["subresource"] = "scale"


def replicas(store):
    return store.kinds["deployments"][PREFILL]["spec"]["replicas"]


async def test_an_autoscaler_on_a_managed_role_is_told_of_and_not_fought(store):
    await store.passes()

    for _ in range(20):
        autoscale(store, 4)
        await store.passes(3)
        assert replicas(store) == 4

    conflict = store.condition("FieldConflict")
    assert (conflict["status"], conflict["reason"]) == ("True", "ReplicasContested")
    assert conflict["message"].startswith(
        "A HorizontalPodAutoscaler changes the replicas of prefill"
    )
    assert "prefill.management: External" in conflict["message"]
    assert "see FieldConflict" in store.condition("ScalingActive")["message"]
    assert store.told.count(("Warning", "ReplicasContested")) == 1


async def test_the_autoscaler_is_named_where_it_may_be_listed(store):
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": PREFILL}
    store.kinds["horizontalpodautoscalers"]["web"] = {
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target},
    }
    await store.passes()
    autoscale(store, 4)

    await store.passes()

    said = store.condition("FieldConflict")["message"]
    assert said.startswith("HorizontalPodAutoscaler web changes the replicas of prefill")


async def test_a_role_is_set_again_once_the_autoscaler_is_gone(store):
    await store.passes()
    autoscale(store, 4)
    await store.passes(130)

    assert store.condition("FieldConflict")["status"] == "True"
    await store.passes(30)

    assert store.condition("FieldConflict")["status"] == "False"
    store.edit({"prefill": {"minReplicas": 2, "maxReplicas": 2}})
    await store.passes(2)
    assert replicas(store) == 2


@pytest.fixture
async def followed(store):
    """A pool that has written what the PoolRole of decode asks for: two replicas."""
    store.served.add("poolroles")
    store.edit({"decode": {"management": "External"}})
    await store.passes(2)
    pool_role = store.kinds["poolroles"][DECODE]
    pool_role["spec"]["replicas"] = 2
    own(pool_role, "kubectl")
    await store.passes()
    assert store.kinds["deployments"][DECODE]["spec"]["replicas"] == 2
    return store


def effective(store):
    [told] = store.kinds["poolroles"][DECODE]["status"]["conditions"]
    return told["reason"]


async def test_an_autoscaler_beside_a_pool_role_is_told_of_and_not_fought(followed):
    for _ in range(20):
        autoscale(followed, 4, DECODE)
        for _ in range(3):
            await followed.passes()
            assert followed.kinds["deployments"][DECODE]["spec"]["replicas"] == 4
            assert effective(followed) == "Contested"

    conflict = followed.condition("FieldConflict")
    assert (conflict["status"], conflict["reason"]) == ("True", "ReplicasContested")
    assert "Let it scale PoolRole tiny-decode instead" in conflict["message"]


async def test_one_write_in_ten_minutes_shows_whether_it_is_still_beside_the_pool_role(followed):
    written = 0
    for _ in range(260):
        autoscale(followed, 4, DECODE)
        await followed.passes()
        written += followed.kinds["deployments"][DECODE]["spec"]["replicas"] == 2

    # 1,300 s: at 600 s and at 1,200 s.
    assert written == 2


async def test_a_pool_role_is_followed_again_once_the_autoscaler_is_gone(followed):
    autoscale(followed, 4, DECODE)
    await followed.passes(150)

    assert followed.kinds["deployments"][DECODE]["spec"]["replicas"] == 2
    assert effective(followed) == "InForce"
    assert followed.condition("FieldConflict")["status"] == "False"


async def test_a_pool_role_that_is_made_anew_leaves_the_count_to_the_autoscaler(followed):
    autoscale(followed, 4, DECODE)
    await followed.passes(2)
    del followed.kinds["poolroles"][DECODE]

    await followed.passes(2)

    assert followed.kinds["deployments"][DECODE]["spec"]["replicas"] == 4
    assert effective(followed) == "NotAsked"
    assert followed.condition("FieldConflict")["status"] == "False"


@pytest.mark.parametrize("name", ["tiny-router", "tiny-memory"])
async def test_a_strangers_object_under_a_childs_name_is_named_with_its_owner(store, name):
    theirs = {"metadata": {"name": name} | owned_by("Deployment", "web", "uid-of-web")}
    store.kinds["configmaps"][name] = theirs | {"data": {"page": "index.html"}}

    await store.passes(2)

    accepted = store.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "OwnedByOther")
    assert f"ConfigMap {name} exists already" in accepted["message"]
    assert "it belongs to Deployment web" in accepted["message"]
    assert store.kinds["configmaps"][name]["data"] == {"page": "index.html"}
    assert store.kinds["deployments"] == {}
