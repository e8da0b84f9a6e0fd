"""Predict a season of any shape from hours of demand: the traffic one period ago.

Sines use the last twenty minutes and have one shape. Here the period is the lag that explains the
latest bins best (autocorrelation), and the forecast is the seasonal naive one.
"""

from collections.abc import Sequence
from math import ceil, dist, exp, sqrt

from tandem_operator.core.forecast.seasonality_of_minutes import Season, binned
from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN, DemandHistory
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# The search for periods uses bins of so many buckets; the best period is then refined to a bucket.
COARSE = 3
BIN_S = COARSE * BUCKET_S


def repeat(
    history: DemandHistory,
    *,
    end_s: int,
    horizons_s: Sequence[float],
    lead_s: float,
    tuning: Tuning = TUNING,
) -> Season | None:
    """Return the rates after `end_s` if the past repeats; `None` if no period explains it.

    `horizons_s` are in seconds after `end_s`. The present difference from the last period fades.
    """
    numbers = tuning.forecast
    buckets = _filled(history.requests, tuning=tuning)
    if history.end_s is None or not buckets:
        return None
    late_by_s = end_s - history.end_s
    if abs(late_by_s) >= numbers.repeat_least_period_s:
        # The operator was away, or a clock was set: the traffic since then is not known.
        return None
    bins = binned(buckets, COARSE)
    least_s = max(numbers.repeat_least_period_s, *horizons_s)
    rough = _period(bins, least=ceil(least_s / BIN_S), tuning=tuning)
    if rough is None:
        return None
    longest = len(buckets) - numbers.repeat_least_overlap_s // BUCKET_S
    near = range(rough * COARSE - COARSE + 1, rough * COARSE + COARSE)
    lag = min((at for at in near if at <= longest), key=lambda at: _error(buckets, at))

    def before(after_s: float) -> float:
        """Return the requests per bucket one period before that time after the last bucket."""
        return _around(buckets, len(buckets) - 0.5 + after_s / BUCKET_S - lag)

    latest, memory_s = numbers.repeat_latest_buckets, numbers.season_residual_memory_s
    beside = sum(buckets[-latest:]) / latest - before(-0.5 * (latest - 1) * BUCKET_S)
    rates = (before(late_by_s + h) + beside * exp(-h / memory_s) for h in horizons_s)
    mean = sum(buckets) / len(buckets)
    low, high = _range(buckets)
    return Season(
        rates_rps=tuple(max(0.0, rate) / BUCKET_S for rate in rates),
        error_rps=_error(buckets, lag) / BUCKET_S,
        # Both compared values vary by chance.
        noise_rps=sqrt(2.0 * max(mean, 1.0)) / BUCKET_S,
        amplitude_rps=0.5 * (high - low) / BUCKET_S,
        mean_rps=mean / BUCKET_S,
        moved_rps=_moved(buckets[-lag:], ceil(lead_s / BUCKET_S)) / BUCKET_S,
        tuning=tuning,
    )


def _filled(counts: Sequence[int], *, tuning: Tuning = TUNING) -> list[float]:
    """Return the counts with each hole filled by the count before it; none with too many holes."""
    if counts.count(UNKNOWN) > tuning.forecast.repeat_most_unknown_share * len(counts):
        return []
    filled: list[float] = []
    for count in counts:
        last = filled[-1] if filled else 0.0
        filled.append(last if count == UNKNOWN else float(count))
    return filled


def _period(bins: Sequence[float], *, least: int, tuning: Tuning = TUNING) -> int | None:
    """Return the lag in bins, at least `least`, that explains the latest bins best."""
    numbers = tuning.forecast
    longest = len(bins) - numbers.repeat_least_overlap_s // BIN_S
    if longest < least:
        return None
    low, high = _range(bins)
    least_varied = numbers.repeat_least_varied_share * (high - low)
    found = [
        (_error(bins, lag), lag)
        for lag in range(least, longest + 1)
        if len(bins) - lag >= numbers.repeat_least_second_share * lag
        if _spread(bins[-min(lag, len(bins) - lag) :]) >= least_varied
    ]
    return min(found)[1] if found else None


def _error(bins: Sequence[float], lag: int) -> float:
    """Return the deviation of the latest bins from those one lag before."""
    size = min(lag, len(bins) - lag)
    return _apart(bins[-size:], bins[len(bins) - size - lag : len(bins) - lag])


def _moved(buckets: Sequence[float], steps: int) -> float:
    """Return how far the counts move within so many buckets."""
    return _apart(buckets[:-steps], buckets[steps:])


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the root of the mean squared difference; 0 if there is nothing to compare."""
    return dist(one, other) / sqrt(len(one)) if one else 0.0


def _spread(bins: Sequence[float]) -> float:
    return max(bins) - min(bins)


def _range(bins: Sequence[float]) -> tuple[float, float]:
    """Return the range without a twentieth at each end: a spike is not a season."""
    ordered = sorted(bins)
    out = len(bins) // 20
    return ordered[out], ordered[-1 - out]


def _around(buckets: Sequence[float], at: float) -> float:
    """Return the mean of three buckets around a place, interpolated between whole buckets.

    A place before the first bucket or after the last has their value.
    """
    place = min(max(at - 0.5, 0.0), len(buckets) - 1.0)
    first = int(place)
    share = place - first

    def smooth(middle: int) -> float:
        around = buckets[max(0, middle - 1) : middle + 2]
        return sum(around) / len(around)

    return (1.0 - share) * smooth(first) + share * smooth(min(first + 1, len(buckets) - 1))
