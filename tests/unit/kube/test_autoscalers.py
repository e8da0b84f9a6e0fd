"""The names of autoscalers are read only in a fight, and are not needed for it."""

import pytest

from tandem_operator.kube.autoscalers import READ_FOR_S, Autoscalers
from tandem_operator.kube.client import ApiServerError
from tandem_operator.workloads.observed.rivals import AN_AUTOSCALER
from tandem_operator.workloads.world import Rival
from tests.unit.kube.apiserver import Clock

FIGHT = {"prefill": Rival(AN_AUTOSCALER, left_alone=True)}


def scaler(name, deployment, kind="Deployment"):
    return {
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": {"kind": kind, "name": deployment}},
    }


async def named(autoscalers, rivals):
    return await autoscalers.named(rivals, namespace="ns", pool="tiny")


async def test_nothing_is_asked_without_a_fight_against_an_autoscaler(api):
    kube, recorder = api
    others = {"decode": Rival("field manager kubectl", left_alone=True)}

    assert await named(Autoscalers(kube, clock=Clock()), others) == others
    assert recorder.reads == []


async def test_the_autoscaler_of_that_deployment_is_named_with_one_list_a_minute(api):
    kube, recorder = api
    recorder.lists = {
        "horizontalpodautoscalers": [
            scaler("other", "big-prefill"),
            scaler("set", "tiny-prefill", kind="StatefulSet"),
            scaler("web", "tiny-prefill"),
        ]
    }
    clock = Clock()
    autoscalers = Autoscalers(kube, clock=clock)

    for _ in range(3):
        found = await named(autoscalers, FIGHT)
        assert found["prefill"] == Rival("HorizontalPodAutoscaler web", left_alone=True)
    assert len(recorder.reads) == 1

    clock.now_s += READ_FOR_S
    await named(autoscalers, FIGHT)
    assert len(recorder.reads) == 2


async def test_an_autoscaler_that_was_made_since_the_last_list_is_named_at_once(api):
    kube, recorder = api
    recorder.lists = {"horizontalpodautoscalers": []}
    clock = Clock()
    autoscalers = Autoscalers(kube, clock=clock)
    await autoscalers.waiting(["decode"], namespace="ns", pool="tiny")
    recorder.lists = {"horizontalpodautoscalers": [scaler("web", "tiny-prefill")]}
    clock.now_s += 2.0

    found = await named(autoscalers, FIGHT)

    assert found["prefill"] == Rival("HorizontalPodAutoscaler web", left_alone=True)


async def test_without_the_right_to_list_them_it_stays_unnamed(api):
    kube, _ = api

    assert await named(Autoscalers(kube, clock=Clock()), FIGHT) == FIGHT


class Failing:
    """An API server of which every list fails."""

    def __init__(self, trouble):
        self.trouble = trouble
        self.asked = 0

    async def list(self, kind, *, namespace):
        self.asked += 1
        raise self.trouble


@pytest.mark.parametrize("trouble", [ApiServerError(503, {}, "GET"), TimeoutError()])
async def test_a_list_that_fails_is_not_asked_for_again_and_again_and_fails_nothing(trouble):
    failing = Failing(trouble)
    autoscalers = Autoscalers(failing, clock=Clock())

    for _ in range(3):
        assert await autoscalers.waiting(["decode"], namespace="ns", pool="tiny") == {}

    assert failing.asked == 1


async def test_what_was_known_before_a_list_failed_is_known_still(api):
    kube, recorder = api
    recorder.lists = {"horizontalpodautoscalers": [scaler("web", "tiny-decode", kind="PoolRole")]}
    clock = Clock()
    autoscalers = Autoscalers(kube, clock=clock)
    await autoscalers.waiting(["decode"], namespace="ns", pool="tiny")
    clock.now_s += READ_FOR_S
    recorder.lists = {}
    recorder.status = 503

    found = await autoscalers.waiting(["decode"], namespace="ns", pool="tiny")

    assert found == {"decode": "web"}
