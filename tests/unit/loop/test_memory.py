"""The memory of a pool is a help: a pass never fails because of it."""

import json

import pytest

from tests.unit.workloads.cluster import NOW, pod, world

MEMORY = ("configmaps", "tiny-memory")
QUOTA = (403, 'configmaps "tiny-memory" is forbidden: exceeded quota: count/configmaps=10')
TOO_LONG = (422, "ConfigMap is invalid: []: Too long: may not be more than 1048576 bytes")
WEBHOOK = (500, "failed calling webhook")


def memory_of(store):
    return json.loads(store.kinds["configmaps"]["tiny-memory"]["data"]["memory.json"])


def started_pod(store):
    """Return a prefill pod that took twenty seconds to be Ready."""
    live = world(children=tuple(store.kinds["deployments"].values()))
    return pod(live, "prefill", created=NOW.replace(":20Z", ":00Z"))


def poisoned(store, **parts):
    """Replace some parts of the stored memory."""
    data = store.kinds["configmaps"]["tiny-memory"]["data"]
    data["memory.json"] = json.dumps(json.loads(data["memory.json"]) | parts)


@pytest.mark.parametrize("refusal", [QUOTA, TOO_LONG, WEBHOOK])
async def test_a_pass_ends_though_its_memory_is_refused(store, refusal):
    store.refusals[MEMORY] = refusal

    await store.passes()

    assert ("Normal", "Initial") in store.told
    assert store.condition("ScalingActive")["status"] == "True"


async def test_what_was_learned_while_the_memory_was_refused_is_stored_later(store):
    store.refusals[MEMORY] = QUOTA
    await store.passes()
    store.start(started_pod(store), component="prefill")
    await store.passes()
    del store.kinds["pods"]["tiny-prefill-0"]
    await store.passes()

    store.refusals.clear()
    await store.passes(7)

    assert memory_of(store)["starts"]["measured"]["prefill"][0]["seconds"] == 20.0


async def test_a_refused_memory_is_told_once_with_what_to_do(store):
    store.refusals[MEMORY] = QUOTA

    await store.passes(200)

    assert store.told.count(("Warning", "MemoryRefused")) == 1
    accepted = store.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("True", "MemoryRefused")
    assert QUOTA[1] in accepted["message"]
    assert "The API server refused ConfigMap tiny-memory" in accepted["message"]


async def test_a_refused_memory_is_tried_again_every_half_minute(store):
    store.refusals[MEMORY] = QUOTA

    await store.passes(13)

    assert store.tried.count(MEMORY) == 3


async def test_a_clock_that_is_set_back_puts_off_no_second_try(store):
    store.refusals[MEMORY] = QUOTA
    await store.passes()

    store.now_s -= 3600.0
    await store.passes()

    assert store.tried.count(MEMORY) == 2


async def test_a_memory_that_is_taken_at_last_is_told_of_no_more(store):
    store.refusals[MEMORY] = QUOTA
    await store.passes()

    store.refusals.clear()
    await store.passes(7)

    assert memory_of(store)
    assert store.condition("Accepted")["reason"] == "Valid"


async def test_a_stored_memory_that_cannot_be_decided_with_is_dropped_told_and_replaced(
    store, caplog
):
    await store.passes()
    poisoned(store, correction={"slowdown": {"prefill": -1.0, "decode": 1.0}})

    store.restart()
    await store.passes(3)

    assert store.told.count(("Warning", "MemoryUnreadable")) == 1
    assert memory_of(store)["correction"]["slowdown"]["prefill"] == 1.0
    (logged,) = [each for each in caplog.records if each.getMessage() == "memory unreadable"]
    assert "math domain error" in logged.why
