"""GPUs are counted as pods hold them: an edit of `gpusPerReplica` reaches them one by one."""

from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import NOW_S, pod, pool, running

LARGE = {
    "engine": {"device": "NVIDIA"},
    "prefill": {"gpusPerReplica": 4},
    "decode": {"gpusPerReplica": 4},
    "scaling": {"gpuBudget": 8},
}
SMALL = {"prefill": {"gpusPerReplica": 1}, "decode": {"gpusPerReplica": 1}}


def on_gpus(live, gpus):
    """Return the pool's engine pods as their launcher was told."""
    return replace(live, pods=tuple(told(each, gpus) for each in live.pods))


def told(found, gpus):
    args = [f"--tensor-parallel-size={gpus}"]
    spec = found["spec"] | {"containers": [{"name": "engine", "args": args}]}
    return found if "router" in found["metadata"]["name"] else found | {"spec": spec}


def edited(*changes, gpus):
    """Return a pool after an edit that reached no pod; each running pod has that many GPUs."""
    live = on_gpus(running(LARGE), gpus)
    return replace(live, pool=pool(LARGE, *changes, generation=2, status=live.pool.get("status")))


def test_pods_of_before_an_edit_hold_the_gpus_that_they_hold():
    live = edited(SMALL, gpus=4)
    small = told(pod(live, "decode", 1), 1)

    planned = plan(replace(live, pods=(*live.pods, small)), now_s=NOW_S)

    assert planned.gpus_held == 9


@pytest.mark.parametrize(("gpus", "to"), [(4, 1), (1, 3)])
def test_a_fleet_grows_into_a_budget_once_its_large_pods_are_gone(gpus, to):
    """Eight GPUs are held by two pods of four, and two by two pods of one."""
    more = {"decode": {"minReplicas": 3}}

    planned = plan(edited(SMALL, more, gpus=gpus), now_s=NOW_S)

    decided = planned.decision.roles[Role.DECODE]
    assert decided.to == to
    assert (decided.reason is Reason.GPU_BUDGET) == (to == 1)


def test_a_pod_of_which_nothing_is_told_counts_by_the_spec():
    assert plan(running(LARGE), now_s=NOW_S).gpus_held == 8


def test_a_pod_on_cpu_is_one_unit():
    live = running()
    extra = pod(live, "decode", 1)

    assert plan(replace(live, pods=(*live.pods, extra)), now_s=NOW_S).gpus_held == 3
