"""A pool that is deleted while a pass over it is under way."""

import logging

import pytest

from tests.unit.loop.store import KEY


@pytest.mark.parametrize("answer", [(404, "not found"), (409, "UID in precondition")])
async def test_a_pass_over_a_pool_that_is_gone_ends_quietly(store, caplog, answer):
    await store.passes()
    store.edit({"decode": {"minReplicas": 2, "maxReplicas": 3}})
    store.refusals["inferencepools", "tiny/status"] = answer

    with caplog.at_level(logging.DEBUG, logger="tandem_operator"):
        await store.passes()

    assert ("inferencepools", "tiny") in store.tried
    told = [each for each in caplog.records if each.message == "pool gone meanwhile"]
    assert len(told) == 1
    assert all(each.levelno < logging.WARNING for each in caplog.records)

    del store.kinds["inferencepools"]["tiny"]
    assert await store.loop.work(KEY) is None


async def test_a_pool_that_is_gone_before_it_is_claimed_is_left(store, caplog):
    store.refusals["inferencepools", "tiny/status"] = (404, "not found")
    store.restart(lease="ops/tandem-operator")

    await store.passes()

    assert store.kinds["deployments"] == {}
    assert all(each.levelno < logging.WARNING for each in caplog.records)
