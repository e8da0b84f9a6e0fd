"""Every scenario of the fault matrix that the simulator plays, and faults in random sequences."""

import pytest

from e2e.faults import runner
from e2e.faults.catalogue import SCENARIOS
from e2e.faults.scenario import Where
from e2e.faults.simulated_faults import SEQUENCE

SIMULATED = [each for each in SCENARIOS if each.where is Where.SIMULATOR]


def violations(scenario, seed, tmp_path):
    result = runner.play_once(scenario, seed=seed, code="-", tell=print, folder=tmp_path)
    assert result.sent > 1000
    return result.violations


@pytest.mark.parametrize("scenario", SIMULATED, ids=lambda each: each.name)
def test_a_simulated_fault_violates_nothing(scenario, tmp_path):
    assert violations(scenario, 1, tmp_path) == []


@pytest.mark.parametrize("seed", range(1, 4))
def test_five_random_faults_in_a_row_violate_nothing(seed, tmp_path):
    assert violations(SEQUENCE, seed, tmp_path) == []
