"""Find the season in the arrival rate: sines, with the best period between the tried ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import copysign, cos, exp, hypot, inf, pi, sin, sqrt
from operator import mul

from tandem_operator.core.tuning.tuning import TUNING, Tuning

BIN_S = 10
BINS = 120
MEDIAN_TO_DEVIATION = 1.48
WAVES_KEPT = 48


@dataclass(frozen=True, slots=True)
class Season:
    """The prediction of sines, and how well the best one explains the past.

    Attributes:
        error_rps: its deviation on most bins of the past.
        noise_rps: the deviation by chance alone.
        moved_rps: change of the rate within a start-up time, as a mean square over a period.
    """

    rates_rps: tuple[float, ...]
    error_rps: float
    noise_rps: float
    amplitude_rps: float
    mean_rps: float
    moved_rps: float = 0.0
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    @property
    def seen(self) -> bool:
        """Return whether the season is clear, and its error small or hardly above chance."""
        numbers = self.tuning.forecast
        left_rps = max(
            numbers.season_most_error_ratio * self.noise_rps,
            numbers.season_misfit_share * self.amplitude_rps,
        )
        least_rps = numbers.season_least_amplitude_share * self.mean_rps
        return self.amplitude_rps >= least_rps and self.error_rps <= left_rps


def season(
    counts: Sequence[float],
    horizons_s: Sequence[float],
    *,
    step_age_s: int | None = None,
    tuning: Tuning = TUNING,
) -> Season | None:
    """Return sines, mixed by how well they explain the history; each needs a whole period.

    Single bursts are limited in the fit, because they belong to no season. The present difference
    from the sine fades with the horizon, unless the level has just jumped. Returns `None` if the
    history is shorter than every period.
    """
    numbers, tried_s = tuning.forecast, periods_s(tuning=tuning)
    bins = binned(counts, BIN_S)[-BINS:]
    size = len(bins)
    if size * BIN_S < tried_s[0]:
        return None
    scale = max(sum(bins) / size, 0.1)
    noise_rps = sqrt(scale / BIN_S)
    jump = None
    if step_age_s is not None and step_age_s <= numbers.season_step_news_s:
        jump = _Jump(rate_rps=sum(counts[-step_age_s:]) / step_age_s, age_s=step_age_s)
    seen_s = size * BIN_S
    fits = {
        period_s: _fitted(
            bins,
            _basis(period_s, size, numbers.season_memory_s, numbers.season_ridge_s),
            horizons_s,
            noise_rps,
            jump,
            tuning=tuning,
        )
        for period_s in tried_s
        if period_s <= numbers.season_reach_ratio * seen_s
    }
    rough_s = min(fits, key=lambda period_s: fits[period_s].cost)
    if fits[rough_s].error_rps > numbers.season_most_error_ratio * noise_rps:
        period_s = _between(rough_s, fits, tuning=tuning)
        del fits[rough_s]
        ridge_s = min(numbers.season_ridge_s, numbers.season_ridge_requests / scale)
        basis = _Basis(_Wave(period_s, numbers.season_memory_s), size, ridge_s)
        fits[period_s] = _fitted(bins, basis, horizons_s, noise_rps, jump, tuning=tuning)
    # A whole period shows that there is a season; its length may still be uncertain.
    best = min((f for p, f in fits.items() if p <= seen_s), key=lambda fit: fit.cost)
    least = min(fit.cost for fit in fits.values())
    beliefs = [exp(-(fit.cost - least) / (4.0 * scale)) for fit in fits.values()]
    total = sum(beliefs)
    return Season(
        rates_rps=tuple(
            max(0.0, sum(b * r for b, r in zip(beliefs, rates, strict=True)) / total)
            for rates in zip(*(fit.rates_rps for fit in fits.values()), strict=True)
        ),
        error_rps=best.error_rps,
        noise_rps=noise_rps,
        amplitude_rps=best.amplitude_rps,
        mean_rps=scale,
        tuning=tuning,
    )


def periods_s(*, tuning: Tuning = TUNING) -> tuple[float, ...]:
    """Return the periods that are tried, shortest first."""
    numbers = tuning.forecast
    return tuple(
        numbers.season_shortest_period_s * numbers.season_period_ratio**i
        for i in range(numbers.season_periods)
    )


@dataclass(frozen=True, slots=True)
class _Jump:
    """The mean rate since the last step."""

    rate_rps: float
    age_s: int


@dataclass(frozen=True, slots=True)
class _Fit:
    cost: float
    residuals: list[float]
    amplitude_rps: float
    rates_rps: list[float]
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    @property
    def error_rps(self) -> float:
        """Return its deviation on most bins."""
        numbers = self.tuning.forecast
        usual = _usual(sorted(map(abs, self.residuals)), share=numbers.season_explained_share)
        return usual / numbers.season_explained_deviations


def _between(period_s: float, fits: Mapping[float, _Fit], *, tuning: Tuning = TUNING) -> float:
    """Return where a parabola through the costs of `period_s` and its neighbours is lowest.

    The error of a period beside the true one grows with the rate, but chance grows only with its
    root. So with more error than chance, the true period may lie between the tried ones.
    """
    tried_s, ratio = periods_s(tuning=tuning), tuning.forecast.season_period_ratio
    at = tried_s.index(period_s)
    around = [fits.get(p) for p in tried_s[max(0, at - 1) : at + 2]]
    if len(around) < 3 or None in around:
        return period_s
    below, here, above = (fit.cost for fit in around if fit is not None)
    bend = below - 2.0 * here + above
    return period_s * ratio ** (0.5 * (below - above) / bend) if bend > 0.0 else period_s


def _fitted(
    bins: list[float],
    basis: "_Basis",
    horizons_s: Sequence[float],
    noise_rps: float,
    jump: _Jump | None,
    *,
    tuning: Tuning = TUNING,
) -> _Fit:
    """Return one sine, fitted twice: the second time without bins beyond chance."""
    numbers = tuning.forecast
    c = basis.solve(bins)
    residuals = basis.residuals(bins, c)
    sizes = sorted(map(abs, residuals))
    usual_rps = MEDIAN_TO_DEVIATION * _usual(sizes, share=0.5)
    most = numbers.season_most_deviations * max(noise_rps, usual_rps)
    if sizes[-1] > most:
        calm = [
            z if -most <= r <= most else z - r + copysign(most, r)
            for z, r in zip(bins, residuals, strict=True)
        ]
        c = basis.solve(calm)
        residuals = basis.residuals(bins, c)
    squares = [
        w * r * r if -most <= r <= most else w * most * most
        for w, r in zip(basis.weights, residuals, strict=True)
    ]

    def sine_rps(in_s: float) -> float:
        turn = 2.0 * pi * in_s / basis.period_s
        return c[0] + c[1] * cos(turn) + c[2] * sin(turn)

    # A present difference fades. A jump may stay, and its length is not known yet.
    beside_rps, memory_s = sum(residuals[-3:]) / 3.0, numbers.season_residual_memory_s
    if jump is not None:
        beside_rps, memory_s = jump.rate_rps - sine_rps(-0.5 * jump.age_s), inf
    return _Fit(
        cost=sum(squares),
        residuals=residuals,
        amplitude_rps=hypot(c[1], c[2]),
        rates_rps=[sine_rps(h) + beside_rps * exp(-h / memory_s) for h in horizons_s],
        tuning=tuning,
    )


def _usual(sizes: Sequence[float], *, share: float) -> float:
    """Return the value that `share` of the sorted `sizes` stay under."""
    return sizes[int(share * len(sizes))]


def binned(counts: Sequence[float], width: int) -> list[float]:
    """Return the mean of each whole `width` counts, the newest last."""
    size = len(counts)
    return [sum(counts[at : at + width]) / width for at in range(size % width, size, width)]


class _Wave:
    """One period's sine and cosine at the middles of the last `BINS` bins, the newest last.

    Histories of every length use the end of the same rows.
    """

    def __init__(self, period_s: float, memory_s: float) -> None:
        self.period_s = period_s
        ages = [(i - BINS + 0.5) * BIN_S for i in range(BINS)]
        self.weights = [BIN_S * exp(age / memory_s) for age in ages]
        self.cosines = [cos(2.0 * pi * age / period_s) for age in ages]
        self.sines = [sin(2.0 * pi * age / period_s) for age in ages]
        self.weighted_cosines = list(map(mul, self.weights, self.cosines))
        self.weighted_sines = list(map(mul, self.weights, self.sines))


class _Basis:
    """Everything about one period's fit that does not depend on the data."""

    def __init__(self, wave: _Wave, size: int, ridge_s: float) -> None:
        self.period_s = wave.period_s
        self.weights = wave.weights[-size:]
        self.cosines, self.sines = wave.cosines[-size:], wave.sines[-size:]
        cosines, sines = wave.weighted_cosines[-size:], wave.weighted_sines[-size:]
        self.weighted = [self.weights, cosines, sines]
        cross = _dot(cosines, self.sines)
        gram = [
            [sum(self.weights) + 1e-6, sum(cosines), sum(sines)],
            [sum(cosines), _dot(cosines, self.cosines) + ridge_s, cross],
            [sum(sines), cross, _dot(sines, self.sines) + ridge_s],
        ]
        self.inverse = _inverse(gram)

    def solve(self, bins: Sequence[float]) -> list[float]:
        """Return level, cosine and sine that explain `bins` best."""
        moments = [_dot(row, bins) for row in self.weighted]
        return [_dot(row, moments) for row in self.inverse]

    def residuals(self, bins: Sequence[float], c: Sequence[float]) -> list[float]:
        """Return each bin minus the sine `c`."""
        level, cosine, sine = c
        return [
            z - level - cosine * x - sine * y
            for z, x, y in zip(bins, self.cosines, self.sines, strict=True)
        ]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    total: float = sum(map(mul, left, right))
    return total


@lru_cache(maxsize=WAVES_KEPT)
def _wave(period_s: float, memory_s: float) -> _Wave:
    return _Wave(period_s, memory_s)


@lru_cache(maxsize=WAVES_KEPT * 4)
def _basis(period_s: float, size: int, memory_s: float, ridge_s: float) -> _Basis:
    return _Basis(_wave(period_s, memory_s), size, ridge_s)


def _inverse(m: list[list[float]]) -> list[list[float]]:
    """Return the inverse of a symmetric positive definite 3 x 3 matrix, by cofactors."""
    (a, b, c), (_, d, e), (_, _, f) = m
    cofactors = [
        [d * f - e * e, c * e - b * f, b * e - c * d],
        [c * e - b * f, a * f - c * c, b * c - a * e],
        [b * e - c * d, b * c - a * e, a * d - b * b],
    ]
    determinant = a * cofactors[0][0] + b * cofactors[0][1] + c * cofactors[0][2]
    return [[value / determinant for value in row] for row in cofactors]
