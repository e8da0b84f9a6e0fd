"""Simple forecasters of the arrival rate; each answers for all horizons at once.

None is right everywhere: means win at rest and after a step, damped lines on ramps, the harmonic
bank on anything periodic. The mixture in `forecast.py` decides which to believe.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import cos, exp, pi, sin

Expert = Callable[[Sequence[float], Sequence[float]], list[float]]

MEAN_LONGEST_S = 180
SLOPE_DOUBT = 5.0
DAMPING_S = 90.0
HARMONIC = "harmonic"
HARMONIC_BIN_S = 10
HARMONIC_BINS = 120
HARMONIC_MIN_BINS = 12
HARMONIC_MEMORY_S = 600.0
HARMONIC_RIDGE_S = 20.0
RESIDUAL_MEMORY_S = 60.0
PERIODS_S = (200.0, 260.0, 330.0, 420.0, 530.0, 600.0, 680.0, 860.0, 1100.0, 1400.0)


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
            slope *= slope_share * strength / (strength + SLOPE_DOUBT)
        return [
            max(0.0, level + slope * (DAMPING_S * (1.0 - exp(-h / DAMPING_S)) + centre))
            for h in horizons_s
        ]

    return predict


def harmonic(counts: Sequence[float], horizons_s: Sequence[float]) -> list[float]:
    """Sines of ten periods, each fitted to the history, mixed by how well they explain it."""
    bins = _binned(counts)
    size = len(bins)
    scale = max(sum(bins) / size, 0.1)
    fits: list[tuple[float, list[float]]] = []
    for period_s in PERIODS_S:
        basis = _basis(period_s, size)
        moments = [sum(map(float.__mul__, row, bins)) for row in basis.weighted]
        c = [sum(v * m for v, m in zip(row, moments, strict=True)) for row in basis.inverse]
        residuals = [
            z - c[0] - c[1] * cosine - c[2] * sine
            for z, cosine, sine in zip(bins, basis.cosines, basis.sines, strict=True)
        ]
        error = sum(w * r * r for w, r in zip(basis.weights, residuals, strict=True))
        error += HARMONIC_RIDGE_S * (c[1] * c[1] + c[2] * c[2])
        now = sum(residuals[-3:]) / len(residuals[-3:])
        turn = 2.0 * pi / period_s
        predicted = [
            c[0] + c[1] * cos(turn * h) + c[2] * sin(turn * h) + now * exp(-h / RESIDUAL_MEMORY_S)
            for h in horizons_s
        ]
        fits.append((error, predicted))
    least = min(error for error, _ in fits)
    beliefs = [exp(-(error - least) / (4.0 * scale)) for error, _ in fits]
    total = sum(beliefs)
    return [
        max(0.0, sum(b * p[i] for b, (_, p) in zip(beliefs, fits, strict=True)) / total)
        for i in range(len(horizons_s))
    ]


def _binned(counts: Sequence[float]) -> list[float]:
    """Mean rate of each whole `HARMONIC_BIN_S` seconds, the newest last."""
    size = min(HARMONIC_BINS, len(counts) // HARMONIC_BIN_S)
    start = len(counts) - size * HARMONIC_BIN_S
    return [
        sum(counts[at : at + HARMONIC_BIN_S]) / HARMONIC_BIN_S
        for at in range(start, len(counts), HARMONIC_BIN_S)
    ]


class _Basis:
    """Everything about one period's fit that does not depend on the data."""

    def __init__(self, period_s: float, size: int) -> None:
        ages = [(i - size + 0.5) * HARMONIC_BIN_S for i in range(size)]
        self.weights = [HARMONIC_BIN_S * exp(age / HARMONIC_MEMORY_S) for age in ages]
        self.cosines = [cos(2.0 * pi * age / period_s) for age in ages]
        self.sines = [sin(2.0 * pi * age / period_s) for age in ages]
        rows = [[1.0] * size, self.cosines, self.sines]
        self.weighted = [[w * v for w, v in zip(self.weights, row, strict=True)] for row in rows]
        gram = [
            [sum(a * b for a, b in zip(left, right, strict=True)) for right in rows]
            for left in self.weighted
        ]
        gram[0][0] += 1e-6
        gram[1][1] += HARMONIC_RIDGE_S
        gram[2][2] += HARMONIC_RIDGE_S
        self.inverse = _inverse(gram)


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
    "mean30": Hired(mean(30, requests=60), 1.0, 1),
    "mean90": Hired(mean(90, requests=150), 0.5, 1),
    "line40": Hired(line(40), 0.2, 40),
    "line60": Hired(line(60), 0.3, 60),
    "line90": Hired(line(90), 0.3, 90),
    "half60": Hired(line(60, slope_share=0.5), 0.5, 60),
    HARMONIC: Hired(harmonic, 0.2, HARMONIC_BIN_S * HARMONIC_MIN_BINS),
}


def predict_all(
    counts: Sequence[float], horizons_s: Sequence[float], *, step_age_s: int | None = None
) -> dict[str, list[float]]:
    """The rates at every horizon of every expert that has enough history.

    After a step `step_age_s` ago, means and lines see only what came since: a line laid over a step
    takes it for a ramp.
    """
    since = counts if step_age_s is None else counts[-step_age_s:]
    histories = {name: counts if name == HARMONIC else since for name in EXPERTS}
    return {
        name: hired.predict(histories[name], horizons_s)
        for name, hired in EXPERTS.items()
        if len(histories[name]) >= hired.needs_s
    }
