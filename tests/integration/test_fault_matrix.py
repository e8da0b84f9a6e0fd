"""The short form of the fault matrix, as far as it needs an operator and an API server only."""

from dataclasses import replace

import pytest

from e2e.faults import runner
from e2e.faults.catalogue import SCENARIOS
from e2e.faults.scenario import Where

QUICK = [each for each in SCENARIOS if each.quick and each.where is Where.API]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", QUICK, ids=lambda each: each.name)
def test_a_fault_of_the_operator_violates_nothing(scenario, tmp_path):
    # How soon a pool is whole again depends on what else this machine does.
    unhurried = replace(scenario, recovers_s=600.0)

    result = runner.play_once(unhurried, seed=1, code="-", tell=print, folder=tmp_path)

    assert result.violations == []
