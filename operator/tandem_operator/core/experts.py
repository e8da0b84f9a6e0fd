"""Simple forecasters of the arrival rate; each answers for all horizons at once.

None is right everywhere: means win at rest and after a step, damped lines on ramps, sines on
anything periodic. The mixture in `forecast.py` decides which to believe.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import cos, exp, hypot, inf, pi, sin, sqrt

Expert = Callable[[Sequence[float], Sequence[float]], list[float]]

MEAN_LONGEST_S = 180
SLOPE_DOUBT = 6.0
DAMPING_S = 90.0
SEASON = "season"
SEASON_BIN_S = 10
SEASON_BINS = 120
SEASON_MEMORY_S = 600.0
SEASON_RIDGE_S = 20.0
RESIDUAL_MEMORY_S = 60.0
STEP_NEWS_S = 120
PERIODS_S = tuple(180.0 * 1.0425**i for i in range(48))
# A period of which two thirds were seen may be the true one, where a shorter one shows a season.
SEASON_REACH = 1.5
LEAST_AMPLITUDE = 0.25
MOST_SEASON_ERROR = 2.0
MEDIAN_TO_DEVIATION = 1.48
# A season has to explain four bins of five: a burst now and then does not end it.
SEASON_SHARE, SEASON_SHARE_DEVIATIONS = 0.8, 1.28
MOST_DEVIATIONS = 2.5


def mean(window_s: int, *, requests: int) -> Expert:
    """The mean of the last `window_s` seconds, or of as many more as hold `requests` requests.

    At one request a second, half a minute tells the rate no better than within a fifth.
    """

    def predict(counts: Sequence[float], horizons_s: Sequence[float]) -> list[float]:
        longest = min(len(counts), MEAN_LONGEST_S)
        size = min(len(counts), window_s)
        total = sum(counts[-size:])
        while size < longest and total < requests:
            size += 1
            total += counts[-size]
        return [total / size] * len(horizons_s)

    return predict


def line(window_s: int, *, slope_share: float = 1.0) -> Expert:
    """A damped straight line through the last `window_s` seconds.

    The slope is shrunk by its own significance under Poisson noise: at a few requests per second
    a window's slope is mostly chance, and extrapolating chance buys replicas.
    """

    def predict(counts: Sequence[float], horizons_s: Sequence[float]) -> list[float]:
        recent = counts[-window_s:]
        size = len(recent)
        centre = (size - 1) / 2.0
        level = sum(recent) / size
        spread = size * (size * size - 1) / 12.0
        slope = 0.0
        if spread > 0.0 and level > 0.0:
            slope = sum((i - centre) * y for i, y in enumerate(recent)) / spread
            strength = slope * slope * spread / level
            slope *= slope_share * strength**2 / (strength**2 + SLOPE_DOUBT**2)
        return [
            max(0.0, level + slope * (DAMPING_S * (1.0 - exp(-h / DAMPING_S)) + centre))
            for h in horizons_s
        ]

    return predict


@dataclass(frozen=True, slots=True)
class Season:
    """What sines say of the rates ahead, and how well the best one explains the past.

    Attributes:
        error_rps: its deviation on most bins of the past.
        noise_rps: what chance alone would leave.
    """

    rates_rps: tuple[float, ...]
    error_rps: float
    noise_rps: float
    amplitude_share: float

    @property
    def seen(self) -> bool:
        """Whether there is a season at all: clear, and hardly more than chance left beside it."""
        return (
            self.amplitude_share >= LEAST_AMPLITUDE
            and self.error_rps <= MOST_SEASON_ERROR * self.noise_rps
        )


def season(
    counts: Sequence[float], horizons_s: Sequence[float], *, step_age_s: int | None = None
) -> Season | None:
    """Sines, mixed by how well they explain the history, once a whole period of one was seen.

    Single bursts are held back in the fit: they belong to no season. What is above or below the
    sine now fades with the horizon, unless the level has just jumped. `None` while the history is
    shorter than every period.
    """
    bins = _binned(counts)
    size = len(bins)
    if size * SEASON_BIN_S < PERIODS_S[0]:
        return None
    scale = max(sum(bins) / size, 0.1)
    noise_rps = sqrt(scale / SEASON_BIN_S)
    jump = None
    if step_age_s is not None and step_age_s <= STEP_NEWS_S:
        jump = _Jump(rate_rps=sum(counts[-step_age_s:]) / step_age_s, age_s=step_age_s)
    seen_s = size * SEASON_BIN_S
    fits = {
        period_s: _fit(bins, period_s, horizons_s, noise_rps, jump)
        for period_s in PERIODS_S
        if period_s <= SEASON_REACH * seen_s
    }
    # That there is a season shows in a whole period; how long it is may still be open.
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
        amplitude_share=best.amplitude_rps / scale,
    )


@dataclass(frozen=True, slots=True)
class _Jump:
    """The mean rate since the last step."""

    rate_rps: float
    age_s: int


@dataclass(frozen=True, slots=True)
class _Fit:
    cost: float
    error_rps: float
    amplitude_rps: float
    rates_rps: list[float]


def _fit(
    bins: list[float],
    period_s: float,
    horizons_s: Sequence[float],
    noise_rps: float,
    jump: _Jump | None,
) -> _Fit:
    """One sine, fitted twice: the second time without what stands out beyond chance."""
    basis = _basis(period_s, len(bins))
    c = basis.solve(bins)
    residuals = basis.residuals(bins, c)
    usual = max(noise_rps, MEDIAN_TO_DEVIATION * _usual(residuals, share=0.5))
    most = MOST_DEVIATIONS * usual
    calm = [z - r + min(most, max(-most, r)) for z, r in zip(bins, residuals, strict=True)]
    c = basis.solve(calm)
    residuals = basis.residuals(bins, c)
    squares = sum(
        w * min(r * r, most * most) for w, r in zip(basis.weights, residuals, strict=True)
    )
    turn = 2.0 * pi / period_s

    def sine_rps(in_s: float) -> float:
        return c[0] + c[1] * cos(turn * in_s) + c[2] * sin(turn * in_s)

    # What stands out now fades; what jumped may stay, and nothing is known yet of how long.
    beside_rps, memory_s = sum(residuals[-3:]) / 3.0, RESIDUAL_MEMORY_S
    if jump is not None:
        beside_rps, memory_s = jump.rate_rps - sine_rps(-0.5 * jump.age_s), inf
    return _Fit(
        cost=squares,
        error_rps=_usual(residuals, share=SEASON_SHARE) / SEASON_SHARE_DEVIATIONS,
        amplitude_rps=hypot(c[1], c[2]),
        rates_rps=[sine_rps(h) + beside_rps * exp(-h / memory_s) for h in horizons_s],
    )


def _usual(residuals: Sequence[float], *, share: float) -> float:
    """What `share` of the residuals stay under."""
    return sorted(map(abs, residuals))[int(share * len(residuals))]


def _binned(counts: Sequence[float]) -> list[float]:
    """Mean rate of each whole `SEASON_BIN_S` seconds, the newest last."""
    size = min(SEASON_BINS, len(counts) // SEASON_BIN_S)
    start = len(counts) - size * SEASON_BIN_S
    return [
        sum(counts[at : at + SEASON_BIN_S]) / SEASON_BIN_S
        for at in range(start, len(counts), SEASON_BIN_S)
    ]


class _Wave:
    """One period's sine and cosine at the middles of the last `SEASON_BINS` bins, the newest last.

    Histories of every length look at the end of the same rows.
    """

    def __init__(self, period_s: float) -> None:
        ages = [(i - SEASON_BINS + 0.5) * SEASON_BIN_S for i in range(SEASON_BINS)]
        self.weights = [SEASON_BIN_S * exp(age / SEASON_MEMORY_S) for age in ages]
        self.cosines = [cos(2.0 * pi * age / period_s) for age in ages]
        self.sines = [sin(2.0 * pi * age / period_s) for age in ages]
        self.weighted_cosines = list(map(float.__mul__, self.weights, self.cosines))
        self.weighted_sines = list(map(float.__mul__, self.weights, self.sines))


class _Basis:
    """Everything about one period's fit that does not depend on the data."""

    def __init__(self, period_s: float, size: int) -> None:
        wave = _wave(period_s)
        self.weights = wave.weights[-size:]
        self.cosines, self.sines = wave.cosines[-size:], wave.sines[-size:]
        cosines, sines = wave.weighted_cosines[-size:], wave.weighted_sines[-size:]
        self.weighted = [self.weights, cosines, sines]
        cross = _dot(cosines, self.sines)
        gram = [
            [sum(self.weights) + 1e-6, sum(cosines), sum(sines)],
            [sum(cosines), _dot(cosines, self.cosines) + SEASON_RIDGE_S, cross],
            [sum(sines), cross, _dot(sines, self.sines) + SEASON_RIDGE_S],
        ]
        self.inverse = _inverse(gram)

    def solve(self, bins: Sequence[float]) -> list[float]:
        """Level, cosine and sine that explain `bins` best."""
        moments = [_dot(row, bins) for row in self.weighted]
        return [_dot(row, moments) for row in self.inverse]

    def residuals(self, bins: Sequence[float], c: Sequence[float]) -> list[float]:
        """What the sine `c` leaves of each bin."""
        level, cosine, sine = c
        return [
            z - level - cosine * x - sine * y
            for z, x, y in zip(bins, self.cosines, self.sines, strict=True)
        ]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(map(float.__mul__, left, right))


@lru_cache(maxsize=len(PERIODS_S))
def _wave(period_s: float) -> _Wave:
    return _Wave(period_s)


@lru_cache(maxsize=len(PERIODS_S) * 4)
def _basis(period_s: float, size: int) -> _Basis:
    return _Basis(period_s, size)


def _inverse(m: list[list[float]]) -> list[list[float]]:
    """Inverse of a symmetric positive definite 3 x 3 matrix by cofactors."""
    (a, b, c), (_, d, e), (_, _, f) = m
    cofactors = [
        [d * f - e * e, c * e - b * f, b * e - c * d],
        [c * e - b * f, a * f - c * c, b * c - a * e],
        [b * e - c * d, b * c - a * e, a * d - b * b],
    ]
    determinant = a * cofactors[0][0] + b * cofactors[0][1] + c * cofactors[0][2]
    return [[value / determinant for value in row] for row in cofactors]


@dataclass(frozen=True, slots=True)
class Hired:
    """An expert in the mixture.

    Attributes:
        worth: its weight before any of its predictions came due. Rest and steps are more common
            than ramps, and a line that is wrong is wrong by more.
        needs_s: history without which it is not asked: a slope through half a window is chance.
    """

    predict: Expert
    worth: float
    needs_s: int


EXPERTS: Mapping[str, Hired] = {
    "mean30": Hired(mean(30, requests=60), 0.5, 1),
    "mean90": Hired(mean(90, requests=150), 0.25, 1),
    "line40": Hired(line(40), 0.5, 40),
    "line60": Hired(line(60), 1.0, 60),
    "line90": Hired(line(90), 1.0, 90),
    "half60": Hired(line(60, slope_share=0.5), 0.5, 60),
}


def predict_all(
    counts: Sequence[float], horizons_s: Sequence[float], *, step_age_s: int | None = None
) -> dict[str, list[float]]:
    """The rates at every horizon of every expert that has enough history.

    After a step `step_age_s` ago, means and lines see only what came since: a line laid over a step
    takes it for a ramp.
    """
    since = counts if step_age_s is None else counts[-step_age_s:]
    return {
        name: hired.predict(since, horizons_s)
        for name, hired in EXPERTS.items()
        if len(since) >= hired.needs_s
    }
