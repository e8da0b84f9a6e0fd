"""The policies that are played: which floors are tried, what each is worth, and how two compare."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tandem_operator.core.objective.candidates import (
    Game,
    Played,
    floors_to_try,
    pairs,
)
from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.objective.what_if import BucketPart, Late, Option, parts_of, unmoved
from tandem_operator.core.role import Role
from tandem_operator.core.spec import RoleSpec
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.bursts import HIGH_RPS, LOW_RPS, SERVICE_S, WORK, lived

# Steps of the grid: 20 of them are a factor of e.
TEN_RPS, ONE_RPS = 46, 0
PREFILL, DECODE = Option(3, 10.0, 600.0), Option(2, 4.0, 400.0)
PLAYED = Played(60.0, PREFILL, DECODE)
LIKE = Cover(floors={Role.PREFILL: 3, Role.DECODE: 2}, hold_s=60.0)


def part(step: int) -> BucketPart:
    return BucketPart(bucket=0, requests=1.0, steps=dict.fromkeys(Role, step), rate=step)


def floors(
    step: int, *, busy: float = 0.2, low: int = 1, high: int = 12, level: bool = False
) -> list[int]:
    bounds = RoleSpec(low, high, 1, True)
    return [*floors_to_try(bounds, [part(ONE_RPS), part(step)], Role.PREFILL, busy, level=level)]


def test_floors_are_tried_up_to_one_beyond_what_carries_the_highest_load_with_ease() -> None:
    # Two replicas are busy, and four have an easy load.
    assert floors(TEN_RPS) == [1, 2, 3, 4, 5]


def test_no_floor_is_below_or_above_the_bounds() -> None:
    assert floors(TEN_RPS, low=3) == [3, 4, 5]
    assert floors(TEN_RPS, high=2) == [1, 2]
    assert floors(TEN_RPS, low=0) == [1, 2, 3, 4, 5]


def test_without_a_load_only_the_fewest_and_one_more_are_tried() -> None:
    assert floors(TEN_RPS, busy=0.0, low=2) == [2, 3]


def test_level_traffic_never_tries_fewer_than_its_load_keeps_busy() -> None:
    assert floors(TEN_RPS, busy=0.6, level=True)[0] == 3
    assert floors(TEN_RPS, busy=0.6, level=False)[0] == 1
    assert floors(TEN_RPS, busy=0.6, level=True, high=3) == [3]


def test_of_a_large_fleet_only_some_floors_are_tried() -> None:
    tried = floors(TEN_RPS, busy=4.0, high=500)

    assert len(tried) <= TUNING.objective.most_floors + 1
    assert tried[0] == 1
    assert len({later - one for one, later in pairwise(tried)}) == 1


def test_each_floor_of_one_role_is_played_with_each_of_the_other() -> None:
    first, second = Option(1, 9.0, 1.0), Option(2, 1.0, 2.0)

    found = pairs(60.0, {Role.PREFILL: [first, second], Role.DECODE: [first, second]})

    assert [each.floors for each in found] == [
        {Role.PREFILL: p, Role.DECODE: d} for p in (1, 2) for d in (1, 2)
    ]
    assert {each.hold_s for each in found} == {60.0}


def test_what_a_policy_costs_is_that_of_both_roles() -> None:
    assert PLAYED.late == 14.0
    assert PLAYED.gpu_s({Role.PREFILL: 1, Role.DECODE: 4}) == 600.0 + 4 * 400.0


@pytest.mark.parametrize(
    ("cover", "alike"),
    [
        (LIKE, True),
        (replace(LIKE, hold_s=0.0), False),
        (replace(LIKE, steady=True), False),
        (replace(LIKE, floors={Role.PREFILL: 3, Role.DECODE: 3}), False),
    ],
)
def test_a_policy_is_like_the_insurance_that_holds_as_much_as_long(
    cover: Cover, *, alike: bool
) -> None:
    assert PLAYED.is_like(cover) is alike


def test_a_fleet_that_never_moves_is_like_a_steady_insurance() -> None:
    still = replace(PLAYED, hold_s=None)

    assert still.is_like(replace(LIKE, steady=True, hold_s=0.0))
    assert not still.is_like(replace(LIKE, hold_s=0.0))


@pytest.mark.parametrize(
    ("hold_s", "short", "within"),
    [
        (60.0, Short({Role.PREFILL: 3, Role.DECODE: 2}, 60.0, 0), True),
        (60.0, Short({Role.PREFILL: 9, Role.DECODE: 9}, 59.0, 0), False),
        (60.0, Short({Role.PREFILL: 2, Role.DECODE: 9}, 60.0, 0), False),
        (60.0, Short({Role.PREFILL: 9, Role.DECODE: 1}, 60.0, 0), False),
        (None, Short({Role.PREFILL: 3, Role.DECODE: 2}, 1800.0, 0), False),
        (None, Short({Role.PREFILL: 3, Role.DECODE: 2}, FOR_EVER_S, 0), True),
    ],
)
def test_a_policy_is_within_what_held_no_less_for_no_shorter(
    hold_s: float | None, short: Short, *, within: bool
) -> None:
    assert replace(PLAYED, hold_s=hold_s).is_within(short) is within


def test_a_policy_insures_no_more_than_what_is_in_force_already() -> None:
    assert PLAYED.insures_no_more(LIKE)
    assert PLAYED.insures_no_more(replace(LIKE, steady=True, hold_s=0.0))
    assert not PLAYED.insures_no_more(replace(LIKE, hold_s=0.0))
    assert not PLAYED.insures_no_more(replace(LIKE, floors={Role.PREFILL: 3}))


def game() -> Game:
    history = lived([(LOW_RPS, 200.0), (HIGH_RPS, 100.0), (LOW_RPS, 200.0)])
    weights = [1.0] * len(history)
    return Game(
        history=history,
        parts=parts_of(history, weights, mean_tokens=WORK.mean_tokens, dispersion=1.0),
        weights=weights,
        late={role: Late(WORK.late_share[role], busy=SERVICE_S[role]) for role in Role},
        floors=dict.fromkeys(Role, range(1, 9)),
    )


def test_a_higher_floor_has_fewer_late_and_holds_more() -> None:
    played = game()
    tried = played.tried(dict.fromkeys(Role, unmoved(played.history)))[Role.PREFILL]

    assert [each.floor for each in tried] == [*range(1, len(tried) + 1)]
    assert all(a.late > b.late for a, b in pairwise(tried))
    assert all(a.replica_s < b.replica_s for a, b in pairwise(tried))


def test_a_fleet_that_follows_holds_what_was_wanted_and_no_more_than_its_most() -> None:
    lead_s = dict.fromkeys(Role, 0.0)

    def held(most: int) -> float:
        most_of_each = {Role.PREFILL: most, Role.DECODE: 1}
        followed = game().followed(hold_s=0.0, lead_s=lead_s, most=most_of_each)
        return followed[Role.PREFILL][0].replica_s

    # The forecast wants one replica in 400 seconds, and six in 100.
    assert held(6) == 400.0 + 6 * 100.0
    assert held(2) == 400.0 + 2 * 100.0
