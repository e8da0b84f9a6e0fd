"""Pods that are not coming: behind a scheduling gate, or without the claim of their GPUs."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import PodPhase
from tandem_operator.workloads.observed.live_objects import see
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.pool_names import PoolName
from tests.unit.workloads.cluster import NOW_S, condition, pod, running, with_pod

NAME = PoolName("serving", "tiny", "8f0c")
KUEUE = {"name": "kueue.x-k8s.io/admission"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
SETTLED_S = NOW_S + 20.0
"""Long enough for a pod that was created at NOW to be called stuck."""


def held_back(live, component, index, *gates):
    return pod(
        live,
        component,
        index,
        ready=False,
        node=None,
        spec={"schedulingGates": list(gates)},
        status={"conditions": [GATED]},
    )


def with_gated(count, *, ready=1, gates=(KUEUE,)):
    live = running(decode=ready + count)
    others = [each for each in live.pods if "decode" not in each["metadata"]["name"]]
    served = [pod(live, "decode", index) for index in range(ready)]
    gated = [held_back(live, "decode", ready + index, *gates) for index in range(count)]
    return replace(live, pods=(*others, *served, *gated))


def blocked(live, *, now_s=SETTLED_S):
    found = condition(plan(live, now_s=now_s).status, "CapacityBlocked")
    return found["status"], found["message"]


@pytest.mark.parametrize(
    ("count", "gates", "sentence"),
    [
        (3, (KUEUE,), "3 decode pods are held by scheduling gate kueue.x-k8s.io/admission"),
        (1, (KUEUE,), "1 decode pod is held by scheduling gate kueue.x-k8s.io/admission"),
        (
            2,
            (KUEUE, {"name": "acme.example/quota"}),
            "2 decode pods are held by scheduling gates acme.example/quota and"
            " kueue.x-k8s.io/admission",
        ),
    ],
)
def test_pods_behind_a_gate_block_capacity_with_the_name_of_the_gate(count, gates, sentence):
    assert blocked(with_gated(count, gates=gates)) == ("True", sentence)


def test_a_gate_that_opens_at_once_is_no_news():
    assert blocked(with_gated(2), now_s=NOW_S + 5.0)[0] == "False"


def test_pods_behind_a_gate_are_pending_and_hold_no_gpu():
    nvidia = {"engine": {"device": "NVIDIA"}}
    live = running(nvidia, decode=3)
    gated = [held_back(live, "decode", index, KUEUE) for index in (1, 2)]
    kept = [each for each in live.pods if each["metadata"]["name"][-1] == "0"]

    planned = plan(replace(live, pods=(*kept, *gated)), now_s=SETTLED_S)

    assert planned.status["decode"]["pending"] == 2
    assert planned.gpus_held == 2


def test_what_keeps_other_pods_from_starting_is_told_beside_a_gate():
    live = with_gated(1)
    failing = pod(
        live,
        "decode",
        7,
        ready=False,
        status={
            "containerStatuses": [
                {
                    "name": "engine",
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}},
                }
            ]
        },
    )

    _, message = blocked(replace(live, pods=(*live.pods, failing)))

    assert message == (
        "pod tiny-decode-7: ImagePullBackOff: no such tag; 1 decode pod is held by scheduling gate"
        " kueue.x-k8s.io/admission"
    )


def test_a_pool_that_waits_for_a_gate_says_so_in_ready():
    ready = condition(plan(with_gated(1, ready=0), now_s=NOW_S).status, "Ready")

    assert ready["reason"] == "SchedulingGated"
    assert ready["message"] == (
        "decode: SchedulingGated: scheduling gate kueue.x-k8s.io/admission holds the pod"
    )


@pytest.mark.parametrize(
    "parts",
    [{"node": "node-1"}, {"node": None, "deletionTimestamp": "2026-09-21T14:13:20Z"}],
    ids=["it has a node", "it is to end"],
)
def test_a_gate_of_a_pod_that_waits_for_nothing_is_not_told(parts):
    live = running()
    gated = pod(live, "decode", ready=False, spec={"schedulingGates": [KUEUE]}, **parts)

    (found,) = see(replace(live, pods=(gated,)), NAME).observation.pods

    assert (found.gates, found.problem) == ((), None)


CLAIM = {"name": "gpus", "resourceClaimTemplateName": "one-gpu"}
NIC = {"name": "nic", "resourceClaimName": "shared-nic"}
MADE = [{"name": "gpus", "resourceClaimName": "tiny-decode-0-gpus-x7"}]


def unscheduled(*, made=(), conditions=()):
    status = {"conditions": list(conditions), "resourceClaimStatuses": list(made)}
    return with_pod(
        running(), "decode", node=None, spec={"resourceClaims": [CLAIM, NIC]}, status=status
    )


def test_a_claim_that_is_never_made_is_reported_with_its_template():
    """No scheduler looks at such a pod, and only an Event says why."""
    live = unscheduled()

    ready = condition(plan(live, now_s=NOW_S).status, "Ready")

    assert ready["reason"] == "ResourceClaimMissing"
    assert "no ResourceClaim was made from ResourceClaimTemplate one-gpu yet" in ready["message"]
    assert "create this template in the namespace" in ready["message"]
    status, message = blocked(live)
    assert status == "True"
    assert "ResourceClaimTemplate one-gpu" in message


def test_a_pod_on_a_node_has_its_claims_whatever_its_status_lacks():
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    status = {"containerStatuses": [{"name": "engine", "state": {"waiting": waiting}}]}
    live = with_pod(running(), "decode", spec={"resourceClaims": [CLAIM]}, status=status)

    ready = condition(plan(live, now_s=NOW_S).status, "Ready")

    assert ready["reason"] == "ImagePullBackOff"


def test_a_claim_that_waits_for_devices_is_told_in_the_schedulers_words():
    words = "0/3 nodes are available: 3 cannot allocate all claims."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}

    assert words in blocked(unscheduled(made=MADE, conditions=[waits]))[1]


def test_a_pod_whose_claim_was_made_is_in_no_trouble_yet():
    found = see(unscheduled(made=MADE), NAME)

    (waiting,) = [each for each in found.observation.pods if each.phase is PodPhase.UNSCHEDULED]
    assert waiting.problem is None
