"""The writes of statuses and Events, and above all the writes that are left out."""

import copy
import itertools

import pytest
from aiohttp import web

from tandem_operator.kube.events import EventWriter
from tandem_operator.kube.status_writer import NUMBERS_EVERY_S, StatusWriter
from tandem_operator.workloads.status.measured_numbers import without_numbers
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


@pytest.mark.parametrize(("to", "is_news"), [(2, False), (3, True)])
def test_the_time_of_a_decision_is_news_only_if_a_count_moves(to, is_news):
    def decided(minute, seconds):
        sentence = f"prefill stays at 2: TTFT p95 was {seconds} s"
        step = {"from": 2, "to": to}
        time = f"2026-11-27T10:{minute}:00Z"
        return {"decision": {"time": time, "prefill": step, "reason": sentence}}

    before, after = (without_numbers(decided(*each)) for each in (("00", 1.2), ("05", 1.31)))

    assert (before != after) is is_news


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


def under_load(tick, *, prefill=3, reason="prefill stays at 3"):
    """Return the report of a pool that serves, at one tick: all measured values have moved."""
    step = {"from": prefill, "to": prefill}
    return changed(
        slo={"ttft": {"p95": f"{400 + tick}ms"}, "goodputPerGPU": f"1.{tick}"},
        prefill={"current": prefill, "ready": prefill, "utilization": f"{tick}.0%"},
        router={"ready": 2, "busy": f"{tick}.0%"},
        cost={"perHour": "9.96 USD", "perThousandGoodRequests": f"1.{tick} USD"},
        figures={"ttftP95Seconds": 0.4 + 0.001 * tick},
        decision={
            "time": f"2026-01-01T00:{tick:02d}:00Z",
            "prefill": step,
            "reason": f"{reason}: TTFT p95 is {400 + tick} ms (bound 450 ms)",
            "inputs": {"arrivals_rps": f"{tick}"},
            "limitsHit": [f"gpuBudget 8, {tick} wanted"],
            "alternatives": [f"2 prefill: {tick} % late"],
        },
    )


async def test_a_pool_under_load_is_written_once_in_half_a_minute(api):
    kube, recorder = api
    clock, stored, written_at_s = Clock(), {}, []
    writer = StatusWriter(kube, clock=clock)

    for tick in range(60):
        if await writer.write(pool(stored), under_load(tick)):
            written_at_s.append(clock.now_s)
            stored = recorder.writes[-1][3]["status"]
        clock.now_s += 5.0

    assert len(written_at_s) == 10
    assert all(b - a >= 30.0 for a, b in itertools.pairwise(written_at_s))


@pytest.mark.parametrize(
    "news",
    [
        {"prefill": 4},
        {"reason": "prefill stays at 3 because maxReplicas is reached"},
    ],
    ids=["another count", "another reason"],
)
async def test_another_decision_under_load_is_written_at_once(api, news):
    kube, _ = api
    clock = Clock()
    writer = StatusWriter(kube, clock=clock)
    await writer.write(pool(), under_load(1))
    clock.now_s += 5.0

    assert await writer.write(pool(under_load(1)), under_load(2, **news))


def test_a_step_that_is_taken_again_is_another_decision():
    step = {"prefill": {"from": 1, "to": 3}, "reason": "minReplicas is 3"}
    first, again = ({"decision": {"time": f"00:0{minute}", **step}} for minute in (0, 1))

    assert without_numbers(first) != without_numbers(again)


async def test_an_event_names_the_pool_and_the_reporter(api):
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
