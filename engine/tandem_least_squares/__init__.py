"""Least squares of three coefficients, none negative, from normal equations and in closed form.

The router learns prefill times by it, the operator learns what engines take. A symmetric system of
three needs no library, and both ask for it many times a second.
"""

from collections.abc import Sequence

Triple = tuple[float, float, float]

# Of its own size: less is rounding.
_LEAST_PIVOT = 1e-9
_PAIRS = ((0, 1), (0, 2), (1, 2))


def nonnegative_solution(gram: Sequence[Sequence[float]], moment: Sequence[float]) -> Triple:
    """Return the `c` with no negative part that makes `c . gram . c - 2 moment . c` least.

    Of those that the data can tell apart: a feature that only moves with others has no part of its
    own. All are zero where nothing can be told.

    Args:
        gram: three rows of three, symmetric, no diagonal element negative.
        moment: three numbers.
    """
    whole = _solve_three(gram, moment)
    # No subset can be better than all three.
    if whole is not None and _is_allowed(whole):
        return whole
    best, best_gain = [0.0, 0.0, 0.0], -1.0
    for i, j in _PAIRS:
        least = _LEAST_PIVOT * gram[j][j]
        pair = _solve_two(gram[i][i], gram[i][j], gram[j][j], moment[i], moment[j], least=least)
        if pair is None or not _is_allowed(pair):
            continue
        gain = pair[0] * moment[i] + pair[1] * moment[j]
        if gain > best_gain * (1 + 1e-9):
            best, best_gain = [0.0, 0.0, 0.0], gain
            best[i], best[j] = pair
    for i in range(3):
        if gram[i][i] <= 0.0 or moment[i] < 0.0:
            continue
        alone = moment[i] / gram[i][i]
        gain = alone * moment[i]
        if gain > best_gain * (1 + 1e-9):
            best, best_gain = [0.0, 0.0, 0.0], gain
            best[i] = alone
    return best[0], best[1], best[2]


def _is_allowed(parts: Sequence[float]) -> bool:
    # Written so that a part that is no number is none either.
    return all(part >= 0.0 for part in parts)


def _solve_two(
    a: float, b: float, c: float, left: float, right: float, *, least: float
) -> tuple[float, float] | None:
    """Return the solution of ((a, b), (b, c)) x = (left, right).

    None where the data cannot tell: where the last pivot is `least` or smaller.
    """
    if a <= 0.0:
        return None
    factor = b / a
    pivot = c - factor * b
    if pivot <= least:
        return None
    second = (right - factor * left) / pivot
    return (left - b * second) / a, second


def _solve_three(gram: Sequence[Sequence[float]], moment: Sequence[float]) -> Triple | None:
    """Return the solution of a symmetric system of three; `None`: the data cannot tell."""
    (a, b, c), (_, d, e), (_, _, f) = gram
    if a <= 0.0:
        return None
    # Eliminate the first, and two are left.
    by, cy = b / a, c / a
    if d - by * b <= _LEAST_PIVOT * d:
        return None
    left, right = moment[1] - by * moment[0], moment[2] - cy * moment[0]
    rest = _solve_two(d - by * b, e - by * c, f - cy * c, left, right, least=_LEAST_PIVOT * f)
    if rest is None:
        return None
    return (moment[0] - b * rest[0] - c * rest[1]) / a, rest[0], rest[1]
