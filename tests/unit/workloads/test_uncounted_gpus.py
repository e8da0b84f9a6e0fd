"""GPUs beside those of `gpusPerReplica`: they would break a budget, so no pool has them."""

import pytest

from tandem_operator.api import parse_pool
from tandem_operator.workloads.checks.uncounted_gpus import gpu_objections
from tests.unit.workloads.cluster import pool

SLICE = "nvidia.com/mig-1g.5gb"
NVIDIA = {"engine": {"device": "NVIDIA"}}


def fields(*changes):
    return [each.field for each in gpu_objections(parse_pool(pool(*changes)).spec)]


def with_container(component, resources, *, kind="containers", name="engine", **more):
    container = {"name": name, "resources": resources, **more}
    return {component: {"podTemplate": {"spec": {kind: [container]}}}}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (
            with_container("decode", {"limits": {SLICE: 1}}),
            f"decode.podTemplate.spec.containers[engine].resources.limits[{SLICE}]",
        ),
        (
            with_container("prefill", {"requests": {"amd.com/gpu": "1"}}),
            "prefill.podTemplate.spec.containers[engine].resources.requests[amd.com/gpu]",
        ),
        (
            with_container("decode", {"limits": {"nvidia.com/gpu": 1}}, name="draft", image="x"),
            "decode.podTemplate.spec.containers[draft].resources.limits[nvidia.com/gpu]",
        ),
        (
            with_container(
                "decode",
                {"limits": {"nvidia.com/gpu": 1}},
                kind="initContainers",
                name="draft",
                restartPolicy="Always",
            ),
            "decode.podTemplate.spec.initContainers[draft].resources.limits[nvidia.com/gpu]",
        ),
        (
            with_container("router", {"limits": {"nvidia.com/gpu.shared": 1}}, name="router"),
            "router.podTemplate.spec.containers[router].resources.limits[nvidia.com/gpu.shared]",
        ),
        (
            {"prefill": {"resources": {"limits": {"gpu.intel.com/xe": 1}}}},
            "prefill.resources.limits[gpu.intel.com/xe]",
        ),
        (
            {"router": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
            "router.resources.limits[nvidia.com/gpu]",
        ),
    ],
)
def test_an_uncounted_gpu_is_refused_with_its_field(change, field):
    assert fields(NVIDIA, change) == [field]


def test_the_sentence_says_where_gpus_are_asked_for():
    change = with_container("decode", {"limits": {SLICE: 1}, "requests": {SLICE: 1}})

    (found,) = gpu_objections(parse_pool(pool(NVIDIA, change)).spec)

    assert found.sentence == (
        f"decode.podTemplate.spec.containers[engine].resources.limits[{SLICE}] asks for a GPU that"
        " gpusPerReplica does not count; leave it out, and let engine.accelerator and"
        " gpusPerReplica say which GPUs engine pods get"
    )


@pytest.mark.parametrize(
    "change",
    [
        with_container("decode", {"limits": {"nvidia.com/gpu": 8}}),
        with_container(
            "decode", {"limits": {"nvidia.com/gpu": 1}}, kind="initContainers", name="warm"
        ),
        with_container("decode", {"limits": {SLICE: None}}),
        with_container("decode", {"limits": {"rdma/hca": 1, "nvidia.com/gpumem": 3000}}),
        with_container("decode", {"limits": {"nvidia.com/mlnxnics": 1, "cpu": "8"}}),
        with_container("decode", "much"),
        {"decode": {"podTemplate": {"spec": {"containers": [None], "initContainers": "none"}}}},
    ],
    ids=[
        "Tandem's own field wins, which is told",
        "it ends before the engine starts",
        "a default taken away",
        "what comes beside a GPU",
        "network cards",
        "no object",
        "no container",
    ],
)
def test_what_is_counted_or_no_gpu_is_taken(change):
    assert fields(NVIDIA, change) == []


def test_beside_a_claim_no_resource_is_counted():
    claimed = {
        "engine": {"device": "NVIDIA", "accelerator": {"resourceClaimTemplateName": "one"}},
        "prefill": {"gpusPerReplica": 1},
        "decode": {"gpusPerReplica": 1},
    }

    assert fields(claimed, with_container("decode", {"limits": {"nvidia.com/gpu": 1}}))
