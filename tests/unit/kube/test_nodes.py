"""Reading which nodes are being emptied: one small list for all pools, or none at all."""

from tandem_operator.kube.nodes import FORBIDDEN_FOR_S, READ_FOR_S, Cordons
from tests.unit.kube.apiserver import Clock


async def test_one_list_of_cordoned_nodes_serves_all_passes_of_a_tick(api):
    kube, recorder = api
    recorder.lists = {"nodes": [{"metadata": {"name": "node-1"}}]}
    clock = Clock()
    cordons = Cordons(kube, clock=clock)

    first = await cordons.names()
    recorder.lists["nodes"] = []
    clock.now_s += READ_FOR_S / 2
    assert await cordons.names() == first == {"node-1"}
    clock.now_s += READ_FOR_S

    assert await cordons.names() == frozenset()
    assert recorder.reads == ["/api/v1/nodes"] * 2
    assert recorder.queries == [{"fieldSelector": "spec.unschedulable=true"}] * 2


async def test_without_the_right_to_list_nodes_that_is_not_known_and_told_once(api, caplog):
    kube, recorder = api
    clock = Clock()
    cordons = Cordons(kube, clock=clock)

    assert await cordons.names() is None
    clock.now_s += READ_FOR_S
    assert await cordons.names() is None
    clock.now_s += FORBIDDEN_FOR_S
    assert await cordons.names() is None

    assert len(recorder.reads) == 2
    assert [record.message for record in caplog.records] == ["nodes not read"]
