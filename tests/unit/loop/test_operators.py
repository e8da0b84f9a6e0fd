"""Several operators over one pool: one runs it, the others look on and say so."""

import pytest

from tandem_operator.kube.client import ApiServerError
from tandem_operator.kube.operators import GONE_AFTER_S

OWN, OTHER = "tandem-system/tandem-operator", "team-a/tandem-operator-team-a"


@pytest.fixture
def second(store):
    """An operator that finds the pool run by another one."""
    store.pool["status"] = {"operator": OTHER}
    store.restart(lease=OWN)
    return store


def renew(store, *, at):
    """Renew the Lease of the other operator."""
    name = OTHER.partition("/")[2]
    store.kinds["leases"][name] = {"metadata": {"name": name}, "spec": {"renewTime": at}}


async def watched(store, *, seconds, renewed):
    """Pass over so much time, in which the other operator renews its Lease or does not."""
    for turn in range(seconds // 5):
        if renewed or turn == 0:
            renew(store, at=turn)
        await store.passes()


async def test_an_operator_writes_its_lease_into_the_status_of_a_pool_without_an_operator(store):
    store.restart(lease=OWN)

    await store.passes(2)

    assert store.pool["status"]["operator"] == OWN
    assert store.pool["status"]["conditions"]
    assert store.told.count(("Warning", "OtherOperator")) == 0


async def test_a_second_operator_writes_nothing_and_names_the_first_one_once(second):
    await watched(second, seconds=300, renewed=True)

    assert second.tried == []
    assert second.pool["status"] == {"operator": OTHER}
    [event] = [each for each in second.events if each["reason"] == "OtherOperator"]
    assert event["note"].startswith(f"Operator {OTHER} runs this pool, so operator {OWN} writes")
    assert event["type"] == "Warning"


async def test_a_second_operator_takes_over_once_the_firsts_lease_stands_still(second):
    await watched(second, seconds=int(GONE_AFTER_S) - 10, renewed=False)
    assert second.tried == []

    await second.passes(4)

    assert second.pool["status"]["operator"] == OWN
    assert second.condition("Accepted")["status"] == "True"


async def test_an_operator_whose_pool_another_one_claimed_leaves_it(store):
    store.restart(lease=OWN)
    await store.passes(2)
    store.pool["status"]["operator"] = OTHER
    renew(store, at=1)
    written = len(store.tried)

    await watched(store, seconds=60, renewed=True)

    assert len(store.tried) == written
    assert ("Warning", "OtherOperator") in store.told


async def test_an_operator_without_a_lease_leaves_a_pool_to_one_that_renews_its_own(second):
    second.restart(lease=None)

    await watched(second, seconds=60, renewed=True)
    assert second.tried == []

    await watched(second, seconds=90, renewed=False)
    assert "operator" not in second.pool["status"]
    assert second.condition("Accepted")["status"] == "True"


@pytest.mark.parametrize("named", ["../../api/v1/secrets/x", "a/b/c", "no-slash", "A/B", ""])
async def test_a_status_without_a_lease_stops_no_operator(second, named):
    second.pool["status"] = {"operator": named}

    await second.passes(2)

    assert second.pool["status"]["operator"] == OWN


async def test_a_definition_without_the_field_is_served_all_the_same(store):
    store.restart(lease=OWN)
    message = "failed to create typed patch object (x): .status.operator: field not declared"
    store.refusals["inferencepools", "tiny"] = (500, message)
    with pytest.raises(ApiServerError):
        await store.passes()
    store.refusals.clear()

    await store.passes(2)

    assert "operator" not in store.pool["status"]
    assert store.condition("Accepted")["status"] == "True"
