"""A difference is one only where its interval over seeds leaves out zero."""

import random

import pytest

from tandem_operator.cli.experiments.spread import difference, interval, percent, points


def test_an_interval_is_that_of_students_t():
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])

    # Mean 3, deviation 1.5811, t of 4 degrees of freedom 2.776.
    assert (found.mean, found.low, found.high) == pytest.approx((3.0, 1.0371, 4.9629), abs=1e-3)
    assert found.shown


def test_one_seed_tells_nothing_of_chance():
    assert interval([3.0]) is None
    assert points(None) == "-"


def test_seeds_are_compared_pair_by_pair():
    # Between seeds there is far more than between the two sides.
    old = [10.0, 50.0, 30.0, 90.0, 20.0]
    new = [value + 1.0 + 0.1 * (number % 2) for number, value in enumerate(old)]

    assert difference(new, old).shown
    assert difference(old, old).none_at_all


def test_what_is_not_known_of_one_seed_has_no_interval():
    assert difference([1.0, None], [1.0, 2.0]) is None


@pytest.mark.parametrize("seeds", [3, 5, 12])
def test_pure_chance_is_called_a_difference_once_in_twenty_times_at_most(seeds):
    draw = random.Random(1)
    wrong = sum(interval([draw.gauss(0.0, 1.0) for _ in range(seeds)]).shown for _ in range(2000))

    assert wrong / 2000 < 0.065


def test_ends_are_told_in_the_unit_of_what_they_are_compared_with():
    assert percent(interval([1.0, 2.0, 3.0]), 100.0) == "-0.5% to +4.5%: none shown"
    assert percent(interval([5.0, 5.1, 5.2]), 10.0) == "+48.5% to +53.5%"
    assert percent(interval([0.0, 0.0]), 10.0) == ""
    assert points(interval([0.01, 0.012, 0.011])) == "+0.85 to +1.35 points"
