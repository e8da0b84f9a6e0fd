"""Statuses and Events: what is written, and above all what is not."""

import copy

import pytest
from aiohttp import web

from tandem_operator.kube.events import EventWriter
from tandem_operator.kube.status_writer import NUMBERS_EVERY_S, StatusWriter
from tests.unit.kube.apiserver import Clock

POOL = {
    "apiVersion": "tandem-inference.io/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"namespace": "ns", "name": "tiny", "uid": "u-1"},
}
STATUS = {
    "observedGeneration": 1,
    "conditions": [{"type": "Ready", "status": "True"}],
    "slo": {"attainment": "99.1%"},
}


def pool(status=None):
    return {**copy.deepcopy(POOL), "status": copy.deepcopy(status or {})}


def changed(**fields):
    return {**copy.deepcopy(STATUS), **fields}


async def test_writes_the_subresource_under_a_manager_of_its_own(api):
    kube, recorder = api

    assert await StatusWriter(kube, clock=Clock()).write(pool(), STATUS)

    method, path, query, body = recorder.writes[0]
    assert (method, path.rpartition("/")[2]) == ("PATCH", "status")
    assert query == {"fieldManager": "tandem-status", "force": "true"}
    assert body["metadata"]["uid"] == "u-1"
    assert body["status"] == STATUS


async def test_the_same_status_is_not_written_again(api):
    kube, recorder = api

    assert not await StatusWriter(kube, clock=Clock()).write(pool(STATUS), changed(endpoint=None))

    assert recorder.writes == []


async def test_what_the_schema_makes_of_a_status_is_no_reason_to_write_it_again(api):
    kube, recorder = api
    pruned = {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}
    recorder.respond = lambda body: web.json_response({**body, "status": pruned})
    writer = StatusWriter(kube, clock=Clock())
    await writer.write(pool(), STATUS)

    assert not await writer.write(pool(pruned), STATUS)

    assert len(recorder.writes) == 1


async def test_numbers_alone_wait_and_a_transition_does_not(api):
    kube, recorder = api
    clock = Clock()
    writer = StatusWriter(kube, clock=clock)
    await writer.write(pool(), STATUS)

    numbers = changed(slo={"attainment": "98.0%"})
    clock.now_s += NUMBERS_EVERY_S - 1
    assert not await writer.write(pool(STATUS), numbers)
    unready = changed(conditions=[{"type": "Ready", "status": "False"}])
    assert await writer.write(pool(STATUS), unready)
    clock.now_s += NUMBERS_EVERY_S
    assert await writer.write(pool(STATUS), numbers)
    assert len(recorder.writes) == 3


async def test_an_event_names_the_pool_and_who_reports_it(api):
    kube, recorder = api
    events = EventWriter(kube, instance="pod_1", now=Clock())

    await events.post(POOL, reason="Scaled", note="prefill 1 -> 2: TTFT at risk", warning=True)

    _, path, _, body = recorder.writes[0]
    assert path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert body["regarding"]["uid"] == "u-1"
    assert (body["type"], body["reason"], body["reportingInstance"]) == (
        "Warning",
        "Scaled",
        "pod_1",
    )
    assert body["eventTime"] == "1970-01-01T00:16:40.000000Z"


async def test_a_repeated_event_is_posted_once_in_ten_minutes_under_the_same_name(api):
    kube, recorder = api
    clock = Clock()
    first, restarted = (EventWriter(kube, instance="i", now=clock) for _ in range(2))

    await first.post(POOL, reason="Scaled", note="same")
    await first.post(POOL, reason="Scaled", note="same")
    await restarted.post(POOL, reason="Scaled", note="same")
    clock.now_s += 601
    await first.post(POOL, reason="Scaled", note="same")

    names = [body["metadata"]["name"] for *_, body in recorder.writes]
    assert len(names) == 3
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("status", [403, 409, 503])
async def test_an_event_that_cannot_be_posted_fails_no_pass(api, status):
    kube, recorder = api
    recorder.respond = lambda _: web.json_response({"reason": "No"}, status=status)

    await EventWriter(kube, instance="i", now=Clock()).post(POOL, reason="R", note="n")

    assert len(recorder.writes) == 1
