"""Non-negative least squares from normal equations: the one best answer, and none from rounding."""

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem_least_squares import Triple, nonnegative_solution

Row = tuple[Triple, float]
COLUMNS = range(3)


def equations(rows: list[Row]) -> tuple[list[list[float]], list[float]]:
    gram = [[sum(x[i] * x[j] for x, _ in rows) for j in COLUMNS] for i in COLUMNS]
    return gram, [sum(x[i] * y for x, y in rows) for i in COLUMNS]


def fit(rows: list[Row]) -> Triple:
    return nonnegative_solution(*equations(rows))


def varied(truth: Triple, *, seed: int, noise: float = 0.0, rows: int = 12) -> list[Row]:
    rng = random.Random(seed)
    drawn = [(1.0, rng.uniform(0.1, 4.0), rng.uniform(0.0, 9.0)) for _ in range(rows)]
    return [
        (x, sum(c * v for c, v in zip(truth, x, strict=True)) + rng.gauss(0.0, noise))
        for x in drawn
    ]


@pytest.mark.parametrize("truth", [(0.5, 2.0, 0.25), (0.0, 1.0, 0.5), (1.0, 0.0, 0.0)])
def test_exact_data_give_their_coefficients(truth: Triple) -> None:
    assert fit(varied(truth, seed=1)) == pytest.approx(truth, abs=1e-9)


@given(
    truth=st.tuples(*[st.floats(-3.0, 3.0)] * 3),
    seed=st.integers(0, 10_000),
    noise=st.floats(0.0, 2.0),
)
@example(truth=(0.0, 1.0, 1.686e-05), seed=1, noise=0.0)
def test_no_step_from_the_solution_makes_the_error_less(
    truth: Triple, seed: int, noise: float
) -> None:
    gram, moment = equations(varied(truth, seed=seed, noise=noise))

    found = nonnegative_solution(gram, moment)

    # Two answers that explain the data equally well, to a billionth, may stand for each other.
    explained = sum(c * m for c, m in zip(found, moment, strict=True))
    for i in COLUMNS:
        slope = sum(gram[i][j] * found[j] for j in COLUMNS) - moment[i]
        gained = slope * slope / gram[i][i]
        assert found[i] >= 0.0
        # Up is no way down, and down is none either unless the coefficient is at its bound.
        if slope < 0.0 or found[i] > 0.0:
            assert gained <= 1e-8 * max(1.0, explained)


def test_features_that_move_together_share_one_coefficient() -> None:
    found = fit([((1.0, u, 3.0 * u), 0.5 + 2.0 * u) for u in (0.7, 1.3, 2.9, 3.1)])

    assert found[0] == pytest.approx(0.5)
    assert found[1] + 3.0 * found[2] == pytest.approx(2.0)
    assert 0.0 in found[1:]


def test_rows_that_are_all_alike_tell_one_coefficient() -> None:
    found = fit([((1.0, 0.3, 0.7), 0.9)] * 50)

    assert sorted(found)[:2] == [0.0, 0.0]
    assert sum(c * v for c, v in zip(found, (1.0, 0.3, 0.7), strict=True)) == pytest.approx(0.9)


def test_a_feature_without_data_has_no_coefficient() -> None:
    found = fit([((1.0, u, 0.0), 0.5 + 2.0 * u) for u in (0.7, 1.3, 2.9)])

    assert found == pytest.approx((0.5, 2.0, 0.0))


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_nothing_is_found_in_no_data(value: float) -> None:
    assert nonnegative_solution([[value] * 3] * 3, [value] * 3) == (0.0, 0.0, 0.0)


def test_a_part_that_is_no_number_is_not_taken() -> None:
    gram, moment = equations(varied((0.5, 2.0, 0.25), seed=1))

    found = nonnegative_solution(gram, [moment[0], moment[1], math.nan])

    assert all(math.isfinite(part) for part in found)
