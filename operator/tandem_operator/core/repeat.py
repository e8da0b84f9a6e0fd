"""Foresee a season of any shape: what followed when the last minutes came before, one lag ago.

Sines know twenty minutes and one shape. This one knows hours, and needs a part of a second period.
"""

from collections.abc import Sequence
from math import ceil, exp, sqrt

from tandem_operator.core.history import BUCKET_S, UNKNOWN, DemandHistory
from tandem_operator.core.season import RESIDUAL_MEMORY_S, Season

# Lags are looked for in bins of so many buckets, and then read to a bucket.
COARSE = 3
BIN_S = COARSE * BUCKET_S
LEAST_LAG_S, LEAST_OVERLAP_S = 300, 300
MEMORY_S = 2400.0
# Of the bins that are compared, so much of all variation must be there: a calm is like any other.
LEAST_VARIED = 0.6
MOST_UNKNOWN = 0.05


def repeat(
    history: DemandHistory, *, end_s: int, horizons_s: Sequence[float]
) -> Season | None:
    """The rates ahead of `end_s` if the past repeats itself; `None` while no lag explains it."""
    fine = _known(history.requests)
    if history.end_s is None or fine is None:
        return None
    bins = _binned(fine)
    lag = _lag(bins, least=ceil(max(LEAST_LAG_S, *horizons_s) / BIN_S)) if bins else None
    if lag is None:
        return None
    rough = lag * COARSE
    lag, error = min(
        (
            (at, _error(fine, at))
            for at in range(rough - COARSE + 1, rough + COARSE)
            if len(fine) - at >= LEAST_OVERLAP_S // BUCKET_S
        ),
        key=lambda found: found[1],
        default=(rough, 0.0),
    )
    mean = sum(fine) / len(fine)
    low, high = _range(fine)
    late_by = end_s - history.end_s

    def before(at: float) -> float:
        """Requests per bucket, one lag before so many buckets after the last."""
        return _around(fine, len(fine) - 0.5 + at - lag)

    beside = sum(fine[-3:]) / 3.0 - before(-1.0)
    rates = [
        max(0.0, before((late_by + h) / BUCKET_S) + beside * exp(-h / RESIDUAL_MEMORY_S)) / BUCKET_S
        for h in horizons_s
    ]
    return Season(
        rates_rps=tuple(rates),
        error_rps=error / BUCKET_S,
        noise_rps=sqrt(2.0 * max(mean, 1.0)) / BUCKET_S,
        amplitude_rps=0.5 * (high - low) / BUCKET_S,
        mean_rps=mean / BUCKET_S,
    )


def _known(counts: Sequence[int]) -> list[float] | None:
    """The counts with each hole as the count before it; `None` where there are too many holes."""
    holes = sum(count == UNKNOWN for count in counts)
    if not counts or holes > MOST_UNKNOWN * len(counts):
        return None
    filled, last = [], float(max(0, counts[0]))
    for count in counts:
        last = last if count == UNKNOWN else float(count)
        filled.append(last)
    return filled


def _binned(fine: Sequence[float]) -> list[float]:
    start = len(fine) % COARSE
    return [sum(fine[at : at + COARSE]) / COARSE for at in range(start, len(fine), COARSE)]


def _lag(bins: Sequence[float], *, least: int) -> int | None:
    """The lag in bins that explains the last of them best; `None` where they tell of none."""
    low, high = _range(bins)
    best, smallest = None, 0.0
    for lag in range(least, len(bins) - LEAST_OVERLAP_S // BIN_S + 1):
        size = min(lag, len(bins) - lag)
        latest = bins[-size:]
        if max(latest) - min(latest) < LEAST_VARIED * (high - low):
            continue
        error = _error(bins, lag)
        if best is None or error < smallest:
            best, smallest = lag, error
    return best


def _error(bins: Sequence[float], lag: int) -> float:
    """The deviation between the latest bins and those one lag before; what is old counts less."""
    size = min(lag, len(bins) - lag)
    pairs = zip(bins[-size:], bins[-size - lag : len(bins) - lag], strict=True)
    return sqrt(sum((now - then) ** 2 for now, then in pairs) / size)


def _range(bins: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(bins)
    return ordered[len(bins) // 20], ordered[-1 - len(bins) // 20]


def _around(fine: Sequence[float], at: float) -> float:
    """The mean of the three buckets around a place, between the whole ones read on a line."""
    first = int(at - 0.5)
    share = at - 0.5 - first

    def smooth(middle: int) -> float:
        part = fine[max(0, middle - 1) : middle + 2]
        return sum(part) / len(part) if part else fine[-1]

    return (1.0 - share) * smooth(first) + share * smooth(first + 1)
