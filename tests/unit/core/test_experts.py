"""The simple forecasters: the forecast of each from a history, and the time of its use."""

from itertools import pairwise
from math import exp

import pytest

from tandem_operator.core.forecast.experts import line, mean, predict_all
from tandem_operator.core.tuning.tuning import TUNING

DAMPING_S = TUNING.forecast.damping_s
HORIZONS_S = (0.0, 60.0, 600.0)
RAMP = [float(second) for second in range(1, 101)]


def test_a_mean_is_that_of_its_window_at_every_horizon() -> None:
    predicted = mean(30, requests=1)([1.0] * 100 + [4.0] * 30, HORIZONS_S)

    assert predicted == [4.0, 4.0, 4.0]


def test_a_mean_of_few_requests_looks_further_back() -> None:
    counts = [1.0] * 100 + [0.0] * 30

    (predicted,) = mean(30, requests=10)(counts, (0.0,))

    # Ten requests are in the last forty seconds.
    assert predicted == pytest.approx(10.0 / 40.0)


def test_a_mean_looks_back_no_further_than_the_longest_window() -> None:
    counts = [9.0] * 300 + [0.0] * TUNING.forecast.mean_longest_s

    assert mean(30, requests=10)(counts, (0.0,)) == [0.0]


def test_a_mean_of_a_short_history_is_that_of_all_of_it() -> None:
    assert mean(30, requests=1000)([2.0, 4.0], (0.0,)) == [3.0]


def test_a_line_carries_a_sure_ramp_on_less_and_less() -> None:
    now, soon, late = line(60)(RAMP, HORIZONS_S)

    assert now == pytest.approx(100.0, rel=0.02)
    assert now < soon < late
    # All that is added by a slope of one a second that fades.
    assert late - now == pytest.approx(DAMPING_S * (1.0 - exp(-600.0 / DAMPING_S)), rel=0.05)


def test_a_line_with_half_its_slope_goes_half_as_far() -> None:
    whole = line(60)(RAMP, HORIZONS_S)
    half = line(60, slope_share=0.5)(RAMP, HORIZONS_S)

    assert half[2] - half[0] == pytest.approx((whole[2] - whole[0]) / 2.0)


def test_a_slope_that_may_be_chance_is_hardly_carried_on() -> None:
    counts = [1.0, 0.0] * 29 + [1.0, 1.0]

    now, _, late = line(60)(counts, HORIZONS_S)

    assert late == pytest.approx(now, abs=0.01)


def test_a_line_never_goes_below_zero() -> None:
    predicted = line(60)(list(reversed(RAMP)), HORIZONS_S)

    assert predicted[-1] == 0.0
    assert all(before >= after for before, after in pairwise(predicted))


@pytest.mark.parametrize("counts", [[5.0], [0.0] * 60])
def test_a_line_without_a_slope_is_its_level(counts: list[float]) -> None:
    assert line(60)(counts, HORIZONS_S) == [counts[0]] * 3


MEANS = {"mean30", "mean90"}


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [
        (1, MEANS),
        (39, MEANS),
        (40, MEANS | {"line40"}),
        (60, MEANS | {"line40", "line60", "half60"}),
        (90, MEANS | {"line40", "line60", "half60", "line90"}),
    ],
)
def test_a_line_is_asked_once_all_of_its_window_was_seen(seconds: int, asked: set[str]) -> None:
    assert set(predict_all([2.0] * seconds, HORIZONS_S)) == asked


def test_after_a_step_only_what_came_since_is_seen() -> None:
    counts = [2.0] * 200 + [20.0] * 30

    predicted = predict_all(counts, (60.0,), step_age_s=30)

    assert predicted == {"mean30": [20.0], "mean90": [20.0]}
