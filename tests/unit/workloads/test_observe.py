"""Reading live objects."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import PodPhase
from tandem_operator.workloads.observed.live_objects import see
from tandem_operator.workloads.pool_names import PoolName
from tests.unit.workloads.cluster import NOW, NOW_S, pod, running

NAME = PoolName("serving", "tiny", "8f0c")


def seen(**parts):
    live = running()
    only = pod(live, "decode", **parts)
    return see(replace(live, pods=(only,)), NAME)


@pytest.mark.parametrize(
    ("parts", "phase"),
    [
        ({}, PodPhase.READY),
        ({"ready": False}, PodPhase.STARTING),
        ({"ready": False, "node": None}, PodPhase.UNSCHEDULED),
        ({"deletionTimestamp": NOW}, PodPhase.TERMINATING),
    ],
)
def test_a_pods_phase_follows_its_life(parts, phase):
    (found,) = seen(**parts).observation.pods

    assert found.phase is phase
    assert found.created_s == NOW_S
    assert found.ready_s == (NOW_S if phase is PodPhase.READY else None)
    assert found.unready_s == (None if phase is PodPhase.READY else NOW_S)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_holds_nothing(phase):
    assert seen(ready=False, status={"phase": phase}).observation.pods == ()


def test_the_routers_that_were_asked_should_have_answered():
    assert see(replace(running(), router_pods=2), NAME).observation.router_pods == 2


@pytest.mark.parametrize(
    ("parts", "away"),
    [({}, False), ({"ready": False}, True), ({"deletionTimestamp": NOW}, True)],
)
def test_clients_are_turned_away_while_no_router_is_ready(parts, away):
    live = running()
    engines = tuple(each for each in live.pods if "router" not in each["metadata"]["name"])

    found = see(replace(live, pods=(*engines, pod(live, "router", **parts))), NAME)

    assert found.observation.turned_away is away


def test_a_role_without_a_deployment_has_no_replicas():
    live = running(prefill=2)
    left = tuple(c for c in live.children if c["metadata"]["name"] != "tiny-decode")

    assert see(replace(live, children=left), NAME).observation.replicas == {"prefill": 2}


def test_pods_of_strangers_are_not_counted():
    stranger = {"metadata": {"name": "x", "labels": {}}, "spec": {}, "status": {}}

    assert see(replace(running(), pods=(stranger,)), NAME).pods == ()
