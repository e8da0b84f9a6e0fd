"""Find the last sudden change of level in the arrivals, and tell it from a ramp."""

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from operator import mul

WINDOWS_S = (90, 180)
CURVE_LEAST_S = 60
JUMP_LEAST_S = 4
CERTAIN = 25.0
# A few requests close together after long silence are no new level.
LEAST_EXCESS = 12.0


def last_step_s(counts: Sequence[float]) -> int | None:
    """Seconds since the level last jumped, or `None`."""
    for window_s in WINDOWS_S:
        age = _jump_on_a_curve(tuple(counts[-window_s:]))
        if age is not None:
            return age
    return None


# The forecast and the sample ask the same in one tick.
@lru_cache(maxsize=len(WINDOWS_S))
def _jump_on_a_curve(recent: tuple[float, ...]) -> int | None:
    """Length of the end of `recent` that stands off the parabola through all of it.

    A parabola with a step in it must explain the window better than the parabola alone, by more
    than chance does; more noise than Poisson's makes for more chance.
    """
    size = len(recent)
    if size < CURVE_LEAST_S or sum(recent) <= 0.0:
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
        if age < JUMP_LEAST_S or abs(tail) < LEAST_EXCESS:
            continue
        # The part of a step that no parabola can take, and the squares that it takes away.
        own = age - sum(lever * lever for lever in levers)
        gain = tail * tail / own
        if gain > best_gain:
            best_age, best_gain = age, gain
    noise = max(sum(recent) / size, (squares - best_gain) / (size - len(basis) - 1))
    return best_age if best_gain > CERTAIN * noise else None


@lru_cache(maxsize=2 * max(WINDOWS_S))
def _parabolas(size: int) -> tuple[tuple[float, ...], ...]:
    """Level, slope and curvature over `size` seconds: orthogonal, each of length one."""
    basis: list[tuple[float, ...]] = []
    for degree in range(3):
        row = [(2.0 * i / size - 1.0) ** degree for i in range(size)]
        for other in basis:
            share = sum(map(mul, row, other))
            row = [x - share * y for x, y in zip(row, other, strict=True)]
        length = sqrt(sum(x * x for x in row))
        basis.append(tuple(x / length for x in row))
    return tuple(basis)
