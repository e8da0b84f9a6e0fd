"""Claims for caches, where the operator has not, or not yet, the right to make any."""

import pytest

from tandem_operator.kube.apply import ChildWriter
from tandem_operator.kube.client import ApiServerError
from tandem_operator.kube.kinds import CHILDREN
from tandem_operator.kube.read_children import ChildReader
from tests.unit.kube.apiserver import Clock

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"namespace": "team", "name": "tiny-cache"},
    "spec": {"accessModes": ["ReadWriteMany"]},
}
# The last two are the groups of kinds that a cluster may lack, which have none.
PLURALS = [*(kind.plural for kind in CHILDREN), "v1", "v1alpha1"]


async def children(kube):
    reader = ChildReader(kube, without=frozenset(), clock=Clock())
    return await reader.read(namespace="team", pool="tiny", uid="uid")


async def test_pools_go_on_without_the_right_to_list_claims(api):
    kube, recorder = api
    recorder.lists = {plural: [] for plural in PLURALS if plural != "persistentvolumeclaims"}

    assert await children(kube) == ()


async def test_another_right_that_is_missing_is_no_empty_list(api):
    kube, recorder = api
    recorder.lists = {plural: [] for plural in PLURALS if plural != "services"}

    with pytest.raises(ApiServerError, match="services"):
        await children(kube)


async def test_a_pool_that_asks_for_a_claim_is_told_which_right_is_missing(api):
    kube, recorder = api
    recorder.lists = {}

    report = await ChildWriter(kube).apply([CLAIM], {}, pool_uid="uid")

    assert report.refused == "PersistentVolumeClaim tiny-cache: no"
    assert recorder.writes == []
