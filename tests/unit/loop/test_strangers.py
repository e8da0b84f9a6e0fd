"""Pods that carry the pool's labels and are not the pool's."""

from tests.unit.loop.store import owned_by
from tests.unit.workloads.cluster import pod, world


def looking_like(store, component, name):
    """Return a Ready pod with all labels and annotations of a component, and an address."""
    live = world(children=tuple(store.kinds["deployments"].values()))
    found = pod(live, component, status={"podIP": "127.0.0.1"}, name=name)
    store.kinds["pods"][name] = found
    return found


async def test_a_pod_made_by_hand_is_not_asked_for_metrics_and_counts_for_nothing(store):
    await store.passes()
    looking_like(store, "decode", "by-hand")
    looking_like(store, "router", "door-by-hand")

    await store.passes(2)

    assert store.pool["status"]["decode"]["ready"] == 0
    assert "by-hand" not in str(store.pool["status"])
    assert ("pods", "by-hand") not in store.tried


async def test_a_pod_of_the_pools_own_replica_set_counts(store):
    await store.passes()
    store.start(looking_like(store, "decode", "ours"), component="decode")

    await store.passes(2)

    assert store.pool["status"]["decode"]["ready"] == 1


async def test_replica_sets_are_listed_for_a_pod_of_one_that_is_not_known_and_then_no_more(store):
    await store.passes()
    store.start(looking_like(store, "decode", "ours"), component="decode")
    forged = looking_like(store, "decode", "forged")
    forged["metadata"] |= owned_by("ReplicaSet", "tiny-decode-7d9", "a-guess")
    listings = []
    store.listed = listings.append

    await store.passes(4)

    assert listings.count("replicasets") == 1
    assert store.pool["status"]["decode"]["ready"] == 1
