"""Find the last sudden change of level in the arrivals, and distinguish it from a ramp."""

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from operator import mul

from tandem_operator.core.tuning.tuning import TUNING, Tuning


def last_step_s(counts: Sequence[float], *, tuning: Tuning = TUNING) -> int | None:
    """Return the seconds since the level last jumped, or `None`."""
    for window_s in tuning.forecast.step_windows_s:
        age = _jump_on_a_curve(tuple(counts[-window_s:]), tuning=tuning)
        if age is not None:
            return age
    return None


# The forecast and the sample need the same in one tick, for two windows.
@lru_cache(maxsize=2)
def _jump_on_a_curve(recent: tuple[float, ...], *, tuning: Tuning = TUNING) -> int | None:
    """Return the length of the end of `recent` that differs from the parabola through all of it.

    A parabola with a step must fit the window better than a parabola alone, by more than chance.
    More noise than Poisson's means more chance.
    """
    numbers = tuning.forecast
    size = len(recent)
    if size < numbers.step_least_history_s or sum(recent) <= 0.0:
        return None
    basis = _parabolas(size)
    residuals = list(recent)
    for row in basis:
        share = sum(map(mul, row, residuals))
        residuals = [r - share * x for r, x in zip(residuals, row, strict=True)]
    squares = sum(r * r for r in residuals)
    best_age, best_gain = None, 0.0
    tail, levers = 0.0, [0.0] * len(basis)
    for age in range(1, size // 2 + 1):
        at = size - age
        tail += residuals[at]
        levers = [lever + row[at] for lever, row in zip(levers, basis, strict=True)]
        if age < numbers.step_least_age_s or abs(tail) < numbers.step_least_excess_requests:
            continue
        # The part of a step that a parabola cannot explain, and the squares that it removes.
        own = age - sum(lever * lever for lever in levers)
        gain = tail * tail / own
        if gain > best_gain:
            best_age, best_gain = age, gain
    noise = max(sum(recent) / size, (squares - best_gain) / (size - len(basis) - 1))
    return best_age if best_gain > numbers.step_certain_ratio * noise else None


# For each length up to both windows.
@lru_cache(maxsize=360)
def _parabolas(size: int) -> tuple[tuple[float, ...], ...]:
    """Return level, slope and curvature over `size` seconds: orthogonal, each of length one."""
    basis: list[tuple[float, ...]] = []
    for degree in range(3):
        row = [(2.0 * i / size - 1.0) ** degree for i in range(size)]
        for other in basis:
            share = sum(map(mul, row, other))
            row = [x - share * y for x, y in zip(row, other, strict=True)]
        length = sqrt(sum(x * x for x in row))
        basis.append(tuple(x / length for x in row))
    return tuple(basis)
