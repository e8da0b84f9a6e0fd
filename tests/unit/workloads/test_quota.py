"""A namespace's quota: what it leaves to pools, and what a pool's plan makes of it."""

from dataclasses import replace

import pytest

from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.share import Quota
from tandem_operator.workloads.observed.quota import NamespaceGpus, gpus_by_pool, hard_gpus
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import NOW_S, after, child, pool, running, world

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
NVIDIA = {"engine": {"device": "NVIDIA"}}


def quota(**hard):
    return {"spec": {"hard": {name.replace("_", "."): value for name, value in hard.items()}}}


def gpu_quota(count):
    return {"spec": {"hard": {"requests.nvidia.com/gpu": count}}}


def container(gpus, *, kind="limits", **more):
    return {"resources": {kind: {"nvidia.com/gpu": gpus}}, **more}


def pod(*containers, pool=None, phase="Running", init=()):
    labels = {"tandem-inference.io/pool": pool} if pool else None
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": list(containers), "initContainers": list(init)},
        "status": {"phase": phase},
    }


def shared(gpus, *claims):
    return Quota("tiny", gpus, gpus, claims)


def test_the_tightest_quota_on_gpus_counts():
    quotas = [quota(requests_cpu="4"), gpu_quota("16"), gpu_quota(8), {"spec": {}}]

    assert hard_gpus(quotas, GPU) == 8


@pytest.mark.parametrize("quotas", [[], [quota(pods="4")], [{"spec": {}}]])
def test_no_quota_on_gpus_is_none_and_not_zero(quotas):
    assert hard_gpus(quotas, GPU) is None


def test_a_quota_of_zero_is_zero():
    assert hard_gpus([gpu_quota("0")], GPU) == 0


LOW_PRIORITY = {"scopeName": "PriorityClass", "operator": "In", "values": ["batch-low"]}


@pytest.mark.parametrize(
    ("scope", "limit"),
    [
        ({"scopes": ["NotTerminating"]}, 2),
        ({"scopes": ["Terminating"]}, 8),
        ({"scopes": ["NotTerminating", "PriorityClass"]}, 8),
        ({"scopeSelector": {"matchExpressions": [LOW_PRIORITY]}}, 8),
    ],
)
def test_a_quota_on_some_pods_is_no_limit_on_all(scope, limit):
    some = {"spec": gpu_quota("2")["spec"] | scope}

    assert hard_gpus([some, gpu_quota("8")], GPU) == limit


def test_gpus_are_counted_as_a_quota_counts_them():
    pods = [
        pod(container("2"), container(1, kind="requests"), pool="tiny"),
        pod(container("1"), pool="tiny", phase="Pending"),
        pod(container("4"), pool="tiny", phase="Succeeded"),
        pod(container("1"), init=[container("4"), container("2")]),
        pod(container("1"), init=[container("1", restartPolicy="Always")]),
        pod({"name": "no-gpu"}),
    ]

    assert gpus_by_pool(pods, GPU) == {"tiny": 4, "": 6}


def test_each_resource_has_a_quota_and_a_count_of_its_own():
    both = {"resources": {"limits": {GPU: "2", SLICE: "3"}}}

    assert hard_gpus([{"spec": {"hard": {f"requests.{SLICE}": "7"}}}, gpu_quota("4")], SLICE) == 7
    assert gpus_by_pool([pod(both, pool="tiny"), pod(container("1"))], SLICE) == {
        "tiny": 3,
        "": 0,
    }


def test_what_others_use_is_not_shared_but_never_less_than_nothing():
    gpus = NamespaceGpus(resource=GPU, hard=8, used={"": 3, "tiny": 4, "gone": 2})

    assert gpus.seen_by("tiny", {}).gpus == 3
    assert replace(gpus, hard=4).seen_by("tiny", {}).gpus == 0


def test_a_plan_carries_the_claim_with_the_priority_of_the_spec():
    live = running(NVIDIA, {"scaling": {"priority": 7}, "prefill": {"gpusPerReplica": 2}})

    made = plan(replace(live, quota=shared(16)), now_s=NOW_S)

    assert (made.claim.pool, made.claim.priority) == ("tiny", 7)
    assert (made.claim.least, made.claim.asked, made.claim.held) == (3, 3, 3)


def test_without_a_quota_there_is_no_claim():
    assert plan(running(NVIDIA), now_s=NOW_S).claim is None


def test_a_pool_that_waits_for_the_quota_says_so_and_starts_when_there_is_room():
    full = Claim("other", priority=10, least=2, asked=7, held=7, granted=7)
    first = world(pool(NVIDIA), quota=shared(8, full))

    waiting = plan(first, now_s=NOW_S)
    later = after(first, waiting, quota=shared(8, replace(full, asked=6, held=6, granted=6)))
    started = plan(later, now_s=NOW_S + 5)

    assert {waiting.replicas[role] for role in ("prefill", "decode")} == {0}
    (blocked,) = [c for c in waiting.status["conditions"] if c["type"] == "CapacityBlocked"]
    assert blocked["status"] == "True"
    assert "the namespace quota of 8 GPUs is shared with pool other" in blocked["message"]
    assert waiting.status["decision"]["limitsHit"] == ["namespace quota"]
    assert "NamespaceQuota" in {event.reason for event in waiting.events}
    assert {started.replicas[role] for role in ("prefill", "decode")} == {1}


@pytest.mark.parametrize(("gpus", "surges"), [(2, 0), (3, 1), (8, 1)])
def test_a_rollout_surges_only_into_quota_that_no_pool_wants(gpus, surges):
    made = plan(replace(running(NVIDIA), quota=shared(gpus)), now_s=NOW_S)

    strategy = child(made.children, "Deployment", "tiny-prefill")["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": surges, "maxUnavailable": 1 - surges}
