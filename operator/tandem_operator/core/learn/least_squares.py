"""Online least squares of y = c . x with three non-negative coefficients, in pure Python.

The shape is learned slowly, so that rare conditions are not forgotten. A single level on top of it
follows a change within a dozen rows. Relative least squares alone would not: rows from before a
slowdown have the smaller scale, and would outweigh later rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tandem_least_squares import nonnegative_solution
from tandem_operator.core.tuning.tuning import TUNING, Tuning

Triple = tuple[float, float, float]

# Two rows are the minimum for two coefficients; the third needs many more.
MIN_ROWS = 2
PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


@dataclass(frozen=True, slots=True)
class Sums:
    """Normal equations with forgetting: upper triangle of the Gram matrix, moments, y squared."""

    gram: tuple[float, ...] = (0.0,) * 6
    moment: tuple[float, ...] = (0.0,) * 3
    squares: float = 0.0
    weight: float = 0.0

    def add(self, x: Triple, y: float, *, weight: float, keep: float) -> "Sums":
        """Return the sums after one more row, with older rows fading by `keep`."""
        gram = tuple(
            g * keep + weight * x[i] * x[j] for g, (i, j) in zip(self.gram, PAIRS, strict=True)
        )
        moment = tuple(m * keep + weight * v * y for m, v in zip(self.moment, x, strict=True))
        return Sums(
            gram=gram,
            moment=moment,
            squares=self.squares * keep + weight * y * y,
            weight=self.weight * keep + weight,
        )

    def faded(self, weight: float) -> "Sums":
        """Return the same averages with a weight of at most `weight` rows."""
        keep = min(1.0, weight / self.weight) if self.weight > 0.0 else 1.0
        return Sums(
            gram=tuple(g * keep for g in self.gram),
            moment=tuple(m * keep for m in self.moment),
            squares=self.squares * keep,
            weight=self.weight * keep,
        )

    def error(self, coefficients: Triple) -> float:
        """Return the sum of squared residuals with these coefficients."""
        quadratic = _quadratic(_matrix(self.gram), coefficients)
        return max(1e-12, self.squares - 2.0 * dot(self.moment, coefficients) + quadratic)


@dataclass(frozen=True, slots=True)
class Line:
    """A learned linear model and its recent relative error.

    Attributes:
        shape: normal equations of all rows, fading slowly.
        level: recent measurements over the shape's prediction.
    """

    shape: Sums = field(default_factory=Sums)
    level: float = 1.0
    error_ratio: float = 0.1
    rows: int = 0

    def inherited(self, *, tuning: Tuning = TUNING) -> "Line":
        """Return the model as a first guess for engines of another kind, worth only a few rows."""
        return replace(self, shape=self.shape.faded(tuning.learn.inherited_rows))

    @property
    def measured(self) -> bool:
        """Return whether there are enough measurements to use it."""
        return self.rows >= MIN_ROWS

    def scaled(self, ratio: float, *, tuning: Tuning = TUNING) -> "Line":
        """Return the model of an engine that takes `ratio` times as long."""
        return replace(self, level=_bounded_level(ratio * self.level, tuning=tuning))

    def coefficients(self, prior: Triple, *, tuning: Tuning = TUNING) -> Triple:
        """Return the best non-negative coefficients now, shrunk to `prior` while rows are few."""
        c = self._fitted_shape(prior, tuning=tuning)
        return (c[0] * self.level, c[1] * self.level, c[2] * self.level)

    def _fitted_shape(self, prior: Triple, *, tuning: Tuning = TUNING) -> Triple:
        plain, richer = solve(self.shape, prior=prior, prior_rows=tuning.learn.prior_rows)
        error = self.shape.error(richer)
        gain = self.shape.error(plain) - error
        doubt = tuning.learn.significant_f_ratio * error
        return richer if gain * max(0.0, self.shape.weight - 3.0) > doubt else plain

    def learn(
        self,
        x: Triple,
        y: float,
        *,
        prior: Triple,
        weight: float,
        among: int = 1,
        tuning: Tuning = TUNING,
    ) -> "Line":
        """Return the model after one more row of relative `weight` (1 = a full row).

        Rows count by relative error, so that long and short intervals count alike. A row far from
        the prediction is limited, not dropped: a true change widens the gate within some rows.
        `among` rows come from one look, so that twenty pods forget as slowly as one.
        """
        learning = tuning.learn
        shaped = dot(self._fitted_shape(prior, tuning=tuning), x) if self.rows else y
        expected = max(shaped * self.level, 1e-3 * y, 1e-12)
        miss = y / expected - 1.0
        gate = learning.gate_errors * max(self.error_ratio, learning.least_error_share)
        held = min(gate, max(-gate / (1.0 + gate), miss))
        trust = weight * min(1.0, gate / abs(miss)) if miss else weight
        scale = max(shaped, 0.1 * y, 1e-12)
        share = (1.0 - learning.level_keep_share) * weight
        level = self.level * (1.0 + share * held) if self.rows else 1.0
        error = self.error_ratio
        if self.rows:
            kept = learning.error_keep_share
            error = error * kept + min(abs(miss), gate) * (1.0 - kept)
        row = (x[0] / scale, x[1] / scale, x[2] / scale)
        keep = learning.shape_keep_share ** (1.0 / among)
        return Line(
            shape=self.shape.add(row, y / scale, weight=trust, keep=keep),
            level=_bounded_level(level, tuning=tuning),
            error_ratio=error,
            rows=self.rows + 1,
        )


def _bounded_level(level: float, *, tuning: Tuning = TUNING) -> float:
    return min(tuning.learn.most_level_ratio, max(tuning.learn.least_level_ratio, level))


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the inner product of two triples."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def solve(sums: Sums, *, prior: Triple, prior_rows: Triple) -> tuple[Triple, Triple]:
    """Return non-negative least squares with a ridge to `prior`, worth `prior_rows` rows.

    The first solution has a third coefficient of zero. The second one has all three.
    """
    if sums.weight <= 0.0:
        return prior, prior
    gram = _matrix(sums.gram)
    moment = list(sums.moment)
    for i in range(3):
        # A feature that was always zero has no scale: only the prior decides.
        ridge = prior_rows[i] * gram[i][i] / sums.weight or 1e-12
        gram[i][i] += ridge
        moment[i] += ridge * prior[i]
    two = [[*gram[0][:2], 0.0], [*gram[1][:2], 0.0], [0.0] * 3]
    return nonnegative_solution(two, [*moment[:2], 0.0]), nonnegative_solution(gram, moment)


def _quadratic(gram: list[list[float]], c: Triple) -> float:
    # Written out for speed: dozens of pods call this a few times a tick.
    x, y, z = c
    first, second, third = gram
    return (
        x * first[0] * x
        + x * first[1] * y
        + x * first[2] * z
        + y * second[0] * x
        + y * second[1] * y
        + y * second[2] * z
        + z * third[0] * x
        + z * third[1] * y
        + z * third[2] * z
    )


def _matrix(triangle: Sequence[float]) -> list[list[float]]:
    gram = [[0.0] * 3 for _ in range(3)]
    for value, (i, j) in zip(triangle, PAIRS, strict=True):
        gram[i][j] = gram[j][i] = value
    return gram
