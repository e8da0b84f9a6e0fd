"""Quotas are read seldom and only where needed; without the right, as if there were none."""

import pytest

from tandem_operator.core.quota.allocate import Claim
from tandem_operator.kube.client import ApiServerError
from tandem_operator.kube.quotas import READ_FOR_S, Sharing
from tests.unit.kube.apiserver import Clock

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
GPUS = {"spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
CORES = {"spec": {"hard": {"requests.cpu": "8"}}}


def pod(name, gpus, pool=None):
    labels = {"tandem-inference.io/pool": pool} if pool else {}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


async def test_pods_are_listed_only_where_a_quota_limits_gpus(api):
    kube, recorder = api
    recorder.lists = {"resourcequotas": [CORES]}

    assert await Sharing(kube, clock=Clock()).gpus("ns", GPU) is None
    assert recorder.reads == ["/api/v1/namespaces/ns/resourcequotas"]


async def test_one_reading_serves_the_passes_of_one_tick(api):
    kube, recorder = api
    recorder.lists = {"resourcequotas": [GPUS], "pods": [pod("job", 3)]}
    clock = Clock()
    sharing = Sharing(kube, clock=clock)

    first = await sharing.gpus("ns", GPU)
    recorder.lists["pods"] = []
    clock.now_s += READ_FOR_S / 2
    assert await sharing.gpus("ns", GPU) == first
    clock.now_s += READ_FOR_S

    assert (first.hard, first.used) == (8, {"": 3})
    assert (await sharing.gpus("ns", GPU)).used == {}


async def test_neighbours_count_by_their_pods_until_they_claim_and_again_when_they_do_not(api):
    kube, recorder = api
    recorder.lists = {
        "resourcequotas": [GPUS],
        "pods": [pod("job", 1), pod("a-1", 2, "a"), pod("b-1", 3, "b")],
    }
    sharing = Sharing(kube, clock=Clock())
    gpus = await sharing.gpus("ns", GPU)
    claim = Claim("b", priority=0, least=2, held=3)

    alone = sharing.quota("ns", "a", gpus=gpus)
    sharing.note("ns", "b", claim=claim, resource=GPU)
    beside = sharing.quota("ns", "a", gpus=gpus)
    sharing.note("ns", "b", claim=None)

    assert (alone.gpus, alone.claims) == (8 - 1 - 3, ())
    assert (beside.gpus, beside.claims) == (8 - 1, (claim,))
    assert sharing.quota("ns", "a", gpus=gpus) == alone
    assert sharing.quota("elsewhere", "a", gpus=None) is None


async def test_pools_of_another_resource_share_nothing(api):
    kube, recorder = api
    slices = {"spec": {"hard": {f"requests.{SLICE}": "7"}}}
    recorder.lists = {"resourcequotas": [GPUS, slices], "pods": [pod("a-1", 2, "a")]}
    sharing = Sharing(kube, clock=Clock())
    sharing.note("ns", "a", claim=Claim("a", priority=0, least=2, held=2), resource=GPU)

    gpus = await sharing.gpus("ns", SLICE)
    beside = sharing.quota("ns", "b", gpus=gpus)
    sharing.note("ns", "a", claim=Claim("a", priority=0, least=2, held=0), resource=SLICE)

    assert (beside.gpus, beside.claims) == (7, ())
    assert len(sharing.quota("ns", "b", gpus=gpus).claims) == 1
    assert sharing.quota("ns", "b", gpus=await sharing.gpus("ns", GPU)).claims == ()


async def test_without_the_right_to_read_quotas_pools_run_as_without_any(api, caplog):
    kube, _ = api
    clock = Clock()
    sharing = Sharing(kube, clock=clock)

    assert await sharing.gpus("ns", GPU) is None
    clock.now_s += 2 * READ_FOR_S
    assert await sharing.gpus("ns", GPU) is None

    assert [record.message for record in caplog.records] == ["quotas not read"]


async def test_pods_that_cannot_be_read_are_no_free_gpus(api):
    kube, recorder = api
    recorder.lists = {"resourcequotas": [GPUS]}

    with pytest.raises(ApiServerError):
        await Sharing(kube, clock=Clock()).gpus("ns", GPU)
