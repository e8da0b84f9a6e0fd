"""Attainment above the objective is called bought only where a fixed fleet keeps it for less."""

from dataclasses import dataclass

import pytest

from tandem_operator.cli.experiments.overspent import overspent
from tandem_operator.core.role import Role
from tests.unit.sim.setups import counts, make_spec


@dataclass
class Report:
    attainment: float
    gpu_hours: float


class Case:
    spec = make_spec()
    start = counts(3, 2)


@dataclass
class Run:
    report: Report
    case = Case


def run(attainment, gpu_hours):
    return Run(Report(attainment, gpu_hours))


def test_what_was_bought_beyond_the_objective_is_told_with_its_price():
    said = overspent(run(0.998, 2.61), run(0.961, 2.19))

    assert said == (
        "Tandem attains 99.80%; the SLO needs 95%. It holds 0.42 GPU-hours more than 3P2D,"
        " which attains 96.10% with 2.19. The SLO does not need them."
    )
    assert Case.start[Role.PREFILL] == 3


@pytest.mark.parametrize(
    ("tandem", "fixed"),
    [
        ((0.998, 2.0), (0.961, 2.19)),
        ((0.940, 2.61), (0.961, 2.19)),
        ((0.998, 2.61), (0.940, 2.19)),
    ],
)
def test_what_came_for_nothing_or_was_needed_is_not_called_bought(tandem, fixed):
    assert overspent(run(*tandem), run(*fixed)) is None
