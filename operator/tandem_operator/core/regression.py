"""Online least squares of y = c . x with three non-negative coefficients, in pure Python.

Two memories stand behind each fit: a slow one that keeps what rare conditions taught, and a fast
one that follows a change within some dozen rows. The fast fit is shrunk to the slow one, the slow
one to a prior of the caller's; so an unseen direction keeps its shape and is not extrapolated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

Triple = tuple[float, float, float]

SLOW_KEEP = 0.998
FAST_KEEP = 0.96
# Rows that the prior of each coefficient weighs. The third feature mostly moves with the second:
# unless data tell them apart, the effect belongs to the second, which extrapolates mildly.
PRIOR_ROWS = (1.0, 1.0, 10.0)
# The fast fit tells the level of today; its shape it takes from the slow one.
SHAPE_ROWS = (4.0, 4.0, 4.0)
ERROR_KEEP = 0.9
ERROR_FLOOR = 0.03
GATE_ERRORS = 4.0
PAIRS = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))


@dataclass(frozen=True, slots=True)
class Sums:
    """Normal equations with forgetting: upper triangle of the Gram matrix, moments, weight."""

    gram: tuple[float, ...] = (0.0,) * 6
    moment: tuple[float, ...] = (0.0,) * 3
    weight: float = 0.0

    def add(self, x: Triple, y: float, *, weight: float, keep: float) -> "Sums":
        """The sums after one more row, older rows fading by `keep`."""
        gram = tuple(
            g * keep + weight * x[i] * x[j] for g, (i, j) in zip(self.gram, PAIRS, strict=True)
        )
        moment = tuple(m * keep + weight * v * y for m, v in zip(self.moment, x, strict=True))
        return Sums(gram=gram, moment=moment, weight=self.weight * keep + weight)


@dataclass(frozen=True, slots=True)
class Line:
    """A learned linear model and how wrong it was lately, as a share of what was measured."""

    slow: Sums = field(default_factory=Sums)
    fast: Sums = field(default_factory=Sums)
    error_ratio: float = 0.2
    rows: int = 0

    def coefficients(self, prior: Triple) -> Triple:
        """Best non-negative coefficients, shrunk to the slow fit and that to `prior`."""
        settled = solve(self.slow, prior=prior, prior_rows=PRIOR_ROWS)
        return solve(self.fast, prior=settled, prior_rows=SHAPE_ROWS)

    def learn(self, x: Triple, y: float, *, prior: Triple, weight: float) -> "Line":
        """The model after one more row of relative `weight` (1 = a full row).

        Rows count by relative error, so that long and short intervals teach alike. A row far from
        the prediction is held back, not dropped: a true change shifts the gate within some rows.
        """
        expected = dot(self.coefficients(prior), x) if self.rows else y
        scale = max(expected, 0.1 * y, 1e-9)
        miss = abs(y - expected) / scale
        gate = GATE_ERRORS * max(self.error_ratio, ERROR_FLOOR)
        trust = weight * min(1.0, gate / miss) if miss > 0.0 else weight
        row = (x[0] / scale, x[1] / scale, x[2] / scale)
        error = self.error_ratio
        if self.rows:
            error = error * ERROR_KEEP + min(miss, 2.0 * gate) * (1.0 - ERROR_KEEP)
        return Line(
            slow=self.slow.add(row, y / scale, weight=trust, keep=SLOW_KEEP),
            fast=self.fast.add(row, y / scale, weight=trust, keep=FAST_KEEP),
            error_ratio=error,
            rows=self.rows + 1,
        )


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Inner product of two triples."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def solve(sums: Sums, *, prior: Triple, prior_rows: Triple) -> Triple:
    """Non-negative least squares with a ridge to `prior`, worth `prior_rows` rows."""
    if sums.weight <= 0.0:
        return prior
    gram = [[0.0] * 3 for _ in range(3)]
    for value, (i, j) in zip(sums.gram, PAIRS, strict=True):
        gram[i][j] = gram[j][i] = value
    moment = list(sums.moment)
    for i in range(3):
        # A feature that never varied from zero has no scale of its own: the prior decides alone.
        ridge = prior_rows[i] * gram[i][i] / sums.weight or 1e-12
        gram[i][i] += ridge
        moment[i] += ridge * prior[i]
    best, best_cost = prior, float("inf")
    for size in (3, 2, 1):
        for active in combinations(range(3), size):
            candidate = _solve_active(gram, moment, active)
            if candidate is None:
                continue
            cost = _cost(gram, moment, candidate)
            if cost < best_cost:
                best, best_cost = candidate, cost
        if size == 3 and best_cost < float("inf"):
            return best
    return best


def _cost(gram: list[list[float]], moment: list[float], c: Triple) -> float:
    quadratic = sum(c[i] * gram[i][j] * c[j] for i in range(3) for j in range(3))
    return quadratic - 2.0 * dot(moment, c)


def _solve_active(
    gram: list[list[float]], moment: list[float], active: tuple[int, ...]
) -> Triple | None:
    """Solution with only the `active` coefficients free; `None` where one is negative."""
    rows = [[gram[i][j] for j in active] + [moment[i]] for i in active]
    size = len(active)
    for k in range(size):
        pivot = max(range(k, size), key=lambda r: abs(rows[r][k]))
        if abs(rows[pivot][k]) < 1e-300:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(k + 1, size):
            factor = rows[r][k] / rows[k][k]
            for column in range(k, size + 1):
                rows[r][column] -= factor * rows[k][column]
    solution = [0.0] * size
    for k in reversed(range(size)):
        rest = sum(rows[k][j] * solution[j] for j in range(k + 1, size))
        solution[k] = (rows[k][size] - rest) / rows[k][k]
    if any(not value >= 0.0 for value in solution):
        return None
    full = [0.0, 0.0, 0.0]
    for index, value in zip(active, solution, strict=True):
        full[index] = value
    return (full[0], full[1], full[2])
