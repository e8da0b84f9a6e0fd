"""The outcome of an insurance: when it stays, when it is not taken again, when it is given back."""

from dataclasses import replace

import pytest

from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.objective.tried_insurance import one_less, short_as, short_of, still_right
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING

NOW_S = 1_790_000_000
LEVEL_S = TUNING.objective.level_window_s
FLOORS = {Role.PREFILL: 4, Role.DECODE: 3}
LEVEL = Cover(floors=FLOORS, steady=True, level_s=NOW_S)
BURSTS = Cover(floors=FLOORS, hold_s=600.0, recurring=True)


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (LEVEL_S - 1, True), (LEVEL_S, False)])
def test_a_fleet_for_level_traffic_stays_for_an_hour(age_s: int, stays: bool) -> None:
    assert still_right(LEVEL, NOW_S + age_s, Proof.NONE) is stays


@pytest.mark.parametrize("proof", [Proof.SHORT, Proof.AMPLE])
def test_a_fleet_for_level_traffic_is_looked_at_again_once_something_is_proven(
    proof: Proof,
) -> None:
    assert not still_right(LEVEL, NOW_S, proof)


def test_what_was_chosen_for_other_traffic_or_in_a_time_to_come_does_not_stay() -> None:
    assert not still_right(replace(LEVEL, level_s=None), NOW_S, Proof.NONE)
    assert not still_right(LEVEL, None, Proof.NONE)
    assert not still_right(LEVEL, NOW_S - 1, Proof.NONE)


@pytest.mark.parametrize("before", [LEVEL, BURSTS])
def test_an_insurance_that_proved_short_is_remembered(before: Cover) -> None:
    assert short_of(before, Proof.SHORT, NOW_S) == short_as(before, at_s=NOW_S)


def test_what_insures_against_nothing_cannot_prove_short() -> None:
    assert short_of(replace(BURSTS, recurring=False), Proof.SHORT, NOW_S) is None


@pytest.mark.parametrize(
    ("age_s", "known"), [(0, True), (LEVEL_S, True), (LEVEL_S + 1, False), (-1, False)]
)
def test_what_proved_short_is_known_for_an_hour(age_s: int, known: bool) -> None:
    short = Short(floors=FLOORS, hold_s=600.0, at_s=NOW_S)

    found = short_of(replace(BURSTS, short=short), Proof.NONE, NOW_S + age_s)

    assert found == (short if known else None)


def test_nothing_is_short_before_there_is_a_history() -> None:
    assert short_of(LEVEL, Proof.SHORT, None) is None


def test_a_fleet_that_never_moves_holds_for_ever() -> None:
    assert short_as(LEVEL, at_s=NOW_S) == Short(FLOORS, FOR_EVER_S, NOW_S)
    assert short_as(BURSTS, at_s=NOW_S) == Short(FLOORS, 600.0, NOW_S)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ({Role.PREFILL: 3, Role.DECODE: 1}, {Role.PREFILL: 4, Role.DECODE: 2}),
        ({Role.PREFILL: 1, Role.DECODE: 2}, {Role.PREFILL: 3, Role.DECODE: 3}),
        ({Role.PREFILL: 4, Role.DECODE: 3}, {Role.PREFILL: 4, Role.DECODE: 3}),
        ({Role.PREFILL: 6, Role.DECODE: 3}, {Role.PREFILL: 4, Role.DECODE: 3}),
    ],
)
def test_one_replica_goes_of_the_role_with_most_to_spare(
    found: dict[Role, int], left: dict[Role, int]
) -> None:
    assert one_less(LEVEL, found) == left
