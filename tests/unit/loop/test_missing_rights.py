"""Rights that a role kept by hand may lack: a pool goes on without what they are for."""

from tests.unit.workloads.cluster import pool

EXTERNAL = {"decode": {"management": "External"}}


async def test_a_pool_goes_on_without_the_right_to_list_pool_roles(store):
    store.served = {"poolroles"}
    store.refusals["poolroles", None] = (403, "poolroles is forbidden")

    await store.passes(2)

    assert store.condition("Accepted")["status"] == "True"
    assert "tiny-decode" in store.kinds["deployments"]


async def test_an_external_role_goes_on_without_that_right_and_gets_no_pool_role(store):
    store.kinds["inferencepools"]["tiny"] = pool(EXTERNAL)
    store.served = {"poolroles"}
    store.refusals["poolroles", None] = (403, "poolroles is forbidden")

    await store.passes(8)

    assert store.condition("Accepted")["status"] == "True"
    assert store.kinds["poolroles"] == {}

    del store.refusals["poolroles", None]
    await store.passes(6)

    assert "tiny-decode" in store.kinds["poolroles"]


async def test_a_pool_goes_on_without_the_right_to_write_the_status_of_pool_roles(store):
    store.kinds["inferencepools"]["tiny"] = pool(EXTERNAL)
    store.served = {"poolroles"}
    store.refusals["poolroles", "tiny-decode/status"] = (403, "poolroles/status is forbidden")

    await store.passes(3)

    assert ("poolroles", "tiny-decode") in store.tried
    assert "status" not in store.kinds["poolroles"]["tiny-decode"]
    assert store.condition("Accepted")["status"] == "True"
