"""The difference between a change and chance."""

import pytest

from tandem_operator.core.statistics import believed


def test_a_mean_that_did_not_move_stays() -> None:
    assert believed(3.0, 3.0, variance=0.0) == 3.0


def test_a_shift_within_chance_is_not_believed() -> None:
    assert believed(4.0, 3.0, variance=1.0) == 3.0
    assert believed(2.0, 3.0, variance=1.0) == 3.0


@pytest.mark.parametrize(("recent", "taken"), [(13.0, 12.8), (-7.0, -6.8)])
def test_a_shift_beyond_chance_is_believed_less_the_chance_in_it(
    recent: float, taken: float
) -> None:
    # Ten away, of which twice the variance over the distance may be chance.
    assert believed(recent, 3.0, variance=1.0) == pytest.approx(taken)


def test_a_shift_without_chance_is_believed_whole() -> None:
    assert believed(13.0, 3.0, variance=0.0) == 13.0
