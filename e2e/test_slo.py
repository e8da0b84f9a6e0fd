"""Tuning an SLO is the product: it takes effect at once and restarts nothing."""

import copy
import time

import pytest

from e2e.commands import CommandError, apply
from e2e.pools import Pool, wait_until


def is_in_force(pool: Pool) -> bool:
    """Return whether the operator and every router act on the newest spec."""
    seen = pool.read()
    generation = seen["metadata"]["generation"]
    return seen["status"].get("observedGeneration") == generation and all(
        pool.metric(pod.name, port=9100, name="tandem_router_settings_generation") == generation
        for pod in pool.pods("router")
    )


def test_an_edited_slo_is_in_force_within_ten_seconds_and_restarts_nothing(pool: Pool, manifest):
    edited = copy.deepcopy(manifest)
    edited["spec"]["slo"]["tpot"] = {"target": "37ms"}
    edited["spec"]["slo"]["ttft"] = {**edited["spec"]["slo"].get("ttft", {}), "target": "910ms"}
    before = pool.all_pods()

    apply(edited)
    wait_until(lambda: is_in_force(pool), within_s=10.0, what="the new SLO in force")

    slo = pool.router_settings()["slo"]
    assert (slo["ttft_s"], slo["tpot_s"]) == (0.91, 0.037)
    assert pool.all_pods() == before
    apply(manifest)
    wait_until(lambda: is_in_force(pool), within_s=10.0, what="the old SLO in force again")
    assert pool.all_pods() == before


@pytest.mark.parametrize(
    ("part", "wrong", "named"),
    [
        ("slo", {"tpot": {"target": "fast"}}, "tpot"),
        ("slo", {"attainment": "101%"}, "attainment"),
        ("decode", {"minReplicas": 3, "maxReplicas": 2}, "eplicas"),
        ("prefill", {"minReplicas": 0, "maxReplicas": 0}, "eplicas"),
    ],
)
def test_a_bad_manifest_over_a_running_pool_is_refused_and_changes_nothing(
    pool: Pool, manifest, part, wrong, named
):
    bad = copy.deepcopy(manifest)
    bad["spec"][part] = {**bad["spec"].get(part, {}), **wrong}
    before, pods = pool.read(), pool.all_pods()

    with pytest.raises(CommandError, match=named):
        apply(bad)

    time.sleep(2.0)
    assert pool.read()["metadata"]["generation"] == before["metadata"]["generation"]
    assert pool.read()["spec"] == before["spec"]
    assert pool.all_pods() == pods
