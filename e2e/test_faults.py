"""The short form of the fault matrix: every answer is compared with the undisturbed one."""

import pytest

from e2e.faults.catalogue import SCENARIOS
from e2e.faults.evidence import Evidence, Stage
from e2e.faults.invariants import violations
from e2e.faults.on_kind import Disturbance, Ground, disturbed
from e2e.faults.scenario import Where
from e2e.pools import wait_until

QUICK = {each.name: each for each in SCENARIOS if each.quick and each.where is Where.KIND}


def played(ground: Ground, name: str, tmp_path) -> Evidence:
    scenario = QUICK[name]
    assert isinstance(scenario.play, Disturbance)
    ground.wait_whole()

    seen = disturbed(ground, scenario.play, Stage(tmp_path / name, seed=7, tell=print))

    assert len(seen.requests) > 20
    assert violations(scenario, seen) == []
    return seen


@pytest.mark.parametrize("name", sorted(set(QUICK) - {"operator-deleted"}))
def test_a_fault_costs_what_a_killed_process_held_and_no_wrong_token(ground, name, tmp_path):
    played(ground, name, tmp_path)


def test_a_pool_serves_without_its_operator_and_is_looked_after_again(ground, tmp_path):
    pool = ground.pool
    ground.wait_whole()
    before = pool.all_pods()

    played(ground, "operator-deleted", tmp_path)

    assert pool.all_pods() == before
    generation = pool.read()["metadata"]["generation"]
    pool.patch({"scaling": {"maxStep": 3}})
    wait_until(
        lambda: pool.read()["status"]["observedGeneration"] > generation,
        within_s=60.0,
        what="a new operator that acts on an edit",
    )
    assert pool.all_pods() == before
