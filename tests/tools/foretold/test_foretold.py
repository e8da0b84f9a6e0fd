"""The forecast of an edit and its real outcome are the same figures over the same time."""

import pytest

from e2e.demo.story import Fleet, Sight
from e2e.foretold import Outcome, lines, read_foretold, replica_s
from tandem_operator.core.role import Role


def sight(at_s: float, prefill: int, decode: int) -> Sight:
    fleets = {Role.PREFILL: Fleet(prefill, 1), Role.DECODE: Fleet(decode, 1)}
    return Sight(at_s=at_s, fleets=fleets, sentence="")


def test_replica_seconds_are_those_between_two_moments() -> None:
    sights = [sight(0.0, 1, 1), sight(100.0, 1, 2), sight(200.0, 1, 3)]

    held = replica_s(sights, begin_s=50.0, end_s=250.0)

    assert held == {Role.PREFILL: 200.0, Role.DECODE: 50.0 + 200.0 + 150.0}


def test_a_simulation_of_another_length_is_compared_by_its_mean_replicas() -> None:
    document = {"new": {"attainment": 0.97, "mean_replicas": {"prefill": 1.0, "decode": 1.5}}}

    foretold = read_foretold(document, lasts_s=480.0)

    assert foretold == Outcome(0.97, {Role.PREFILL: 480.0, Role.DECODE: 720.0})


@pytest.mark.parametrize(("decode_s", "holds"), [(660.0, True), (650.0, False)])
def test_a_figure_holds_within_a_tenth_of_what_happened(decode_s: float, holds: bool) -> None:
    foretold = Outcome(0.95, {Role.PREFILL: 480.0, Role.DECODE: 720.0})
    happened = Outcome(0.97, {Role.PREFILL: 480.0, Role.DECODE: decode_s})

    found = {line.what: line.holds for line in lines(foretold, happened)}

    assert found["attainment of the new SLO"]
    assert found["decode replica-seconds"] is holds
