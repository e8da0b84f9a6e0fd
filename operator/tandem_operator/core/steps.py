"""Find the last sudden change of level in the arrivals, and tell it from a ramp."""

from collections.abc import Sequence
from math import sqrt

WINDOW_S = 180
MIN_SIDE_S = 8
STRIDE_S = 2
SIGNIFICANT = 5.0
BETTER_THAN_LINE = 10.0


def last_step_s(counts: Sequence[float]) -> int | None:
    """Seconds since the level last jumped, or `None`.

    The clearest step is found first; then what follows it is searched for a later one.
    """
    age = None
    recent = counts[-WINDOW_S:]
    while (found := _clearest_step(recent)) is not None:
        age = found
        recent = recent[-found:]
    return age


def _clearest_step(recent: Sequence[float]) -> int | None:
    """Length of the part after the split into two levels that explains `recent` best.

    The levels must differ by `SIGNIFICANT` standard errors of a Poisson count, and explain the
    window clearly better than one straight line does.
    """
    size = len(recent)
    if size < 3 * MIN_SIDE_S:
        return None
    total, squares = sum(recent), sum(y * y for y in recent)
    mean = total / size
    if mean <= 0.0:
        return None
    best_age, best_error = None, float("inf")
    before = 0.0
    for split in range(1, size - MIN_SIDE_S + 1):
        before += recent[split - 1]
        if split < MIN_SIDE_S or (size - split) % STRIDE_S:
            continue
        left, right = before / split, (total - before) / (size - split)
        spread = sqrt(max(mean, 0.1) * (1.0 / split + 1.0 / (size - split)))
        if abs(right - left) < SIGNIFICANT * spread:
            continue
        error = squares - split * left * left - (size - split) * right * right
        if error < best_error:
            best_age, best_error = size - split, error
    if best_age is None:
        return None
    centre = (size - 1) / 2.0
    slope_sum = sum((i - centre) * y for i, y in enumerate(recent))
    line_error = squares - total * mean - 12.0 * slope_sum * slope_sum / (size * (size * size - 1))
    return best_age if line_error - best_error > BETTER_THAN_LINE * mean else None
