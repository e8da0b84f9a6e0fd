"""First guesses: what an engine measured of itself, and what a profile adds to that."""

import pytest

from tandem_operator.core.learn.first_estimates import FirstEstimate, Pair, first_estimate, through

PRIOR = (0.02, 1e-4, 5e-9)
SLOPE, FIXED = 1, 0


def test_nothing_is_told_without_a_measurement_or_a_prior() -> None:
    assert first_estimate(None, None, None, as_=SLOPE) is None


def test_a_prior_alone_is_a_guess_that_was_not_measured() -> None:
    assert first_estimate(None, None, PRIOR, as_=SLOPE) == FirstEstimate(*PRIOR, measured=False)


def test_a_prior_changes_no_guess_that_there_is() -> None:
    before = FirstEstimate(0.01, 2e-4, 1e-9)

    assert first_estimate(before, None, PRIOR, as_=SLOPE) is before


@pytest.mark.parametrize(
    ("measured", "as_", "third_s"),
    [
        ((0.02, 5e-5), SLOPE, 2.5e-9),
        ((0.01, 1e-4), FIXED, 2.5e-9),
        # One that is slower may be so for other reasons.
        ((0.02, 4e-4), SLOPE, 5e-9),
    ],
)
def test_the_third_of_a_prior_shrinks_as_a_faster_engine_does(
    measured: Pair, as_: int, third_s: float
) -> None:
    found = first_estimate(None, measured, PRIOR, as_=as_)

    assert found == FirstEstimate(*measured, third_s=pytest.approx(third_s))


@pytest.mark.parametrize(("as_", "times"), [(FIXED, 3.0), (SLOPE, 2.0)])
def test_without_a_prior_the_third_moves_as_the_measurement_does(as_: int, times: float) -> None:
    before = FirstEstimate(0.01, 1e-4, 1e-9)

    found = first_estimate(before, (0.03, 2e-4), None, as_=as_)

    assert found == FirstEstimate(0.03, 2e-4, third_s=pytest.approx(times * 1e-9))


def test_without_any_third_a_measurement_stands_alone() -> None:
    before = FirstEstimate(0.01, 1e-4)

    assert first_estimate(before, (0.03, 2e-4), None, as_=SLOPE) == FirstEstimate(0.03, 2e-4)
    assert first_estimate(None, (0.03, 2e-4), None, as_=SLOPE) == FirstEstimate(0.03, 2e-4)


def test_a_ratio_compares_two_measurements_at_one_place() -> None:
    assert FirstEstimate(0.02, 2e-4).ratio(
        FirstEstimate(0.01, 1e-4), at=(1.0, 100.0)
    ) == pytest.approx(2.0)
    assert FirstEstimate(0.02, 1e-4).ratio(
        FirstEstimate(0.01, 1e-4), at=(0.0, 100.0)
    ) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (FirstEstimate(0.02, 2e-4), None),
        (FirstEstimate(0.02, 2e-4), FirstEstimate(0.01, 1e-4, measured=False)),
        (FirstEstimate(0.02, 2e-4, measured=False), FirstEstimate(0.01, 1e-4)),
        (FirstEstimate(0.02, 2e-4), FirstEstimate(0.0, 0.0)),
    ],
)
def test_what_cannot_be_compared_takes_as_long(
    one: FirstEstimate, other: FirstEstimate | None
) -> None:
    assert one.ratio(other, at=(1.0, 1.0)) == 1.0


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(10.0, 3.0), (20.0, 4.0)], (2.0, 0.1)),
        ([(10.0, 3.0), (15.0, 9.0), (20.0, 4.0)], (2.0, 0.1)),
        # The longer took no longer.
        ([(10.0, 3.0), (20.0, 3.0)], (3.0, 0.0)),
        ([(10.0, 3.0), (20.0, 2.0)], (2.0, 0.0)),
        # The shorter took less than its share.
        ([(10.0, 1.0), (20.0, 4.0)], (0.0, 0.2)),
    ],
)
def test_a_line_through_two_points_has_no_negative_part(points: list[Pair], line: Pair) -> None:
    assert through(points) == pytest.approx(line)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1.0, 1.0)],
        [(1.0, 1.0), (1.0, 2.0)],
        [(2.0, 1.0), (1.0, 2.0)],
        [(1.0, 1.0), (2.0, 0.0)],
    ],
)
def test_there_is_no_line_without_two_places(points: list[Pair]) -> None:
    assert through(points) is None
