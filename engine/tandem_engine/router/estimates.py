"""What the router learns online: tokens per byte, prefill service time, and usual TTFT parts.

Nothing here is known at the start, and unknown stays `None` until data came.
"""

from itertools import combinations

_HALF_LIFE_LEGS = 200
_FORGET = 0.5 ** (1 / _HALF_LIFE_LEGS)
_FEWEST_LEGS = 4
_DEFAULT_TOKENS_PER_BYTE = 0.25


class TokensPerByte:
    """Ratio of prompt tokens to prompt bytes, learned from exact counts."""

    def __init__(self) -> None:
        self._tokens = _DEFAULT_TOKENS_PER_BYTE * 64
        self._bytes = 64.0

    def learn(self, *, tokens: int, size: int) -> None:
        """Take one exact count."""
        if size > 0:
            self._tokens = 0.98 * self._tokens + tokens
            self._bytes = 0.98 * self._bytes + size

    def estimate(self, size: int) -> int:
        """Return the tokens to expect in a prompt of `size` bytes, at least one."""
        return max(1, round(size * self._tokens / self._bytes))


class ServiceTime:
    """S(u) = a0 + a1 u + a2 u ctx, the time a prefill takes when nothing else is in its way.

    Weighted least squares with forgetting and no negative coefficient, on legs that had their pod
    to themselves. Weights are relative, so that a long prompt does not drown the short ones.
    """

    def __init__(self) -> None:
        self._legs = 0
        self._gram = [[0.0] * 3 for _ in range(3)]
        self._moment = [0.0] * 3
        self._solution: tuple[float, ...] | None = None

    def learn(self, *, uncached: int, cached: int, leg_s: float) -> None:
        """Take one uncontended leg."""
        weight = 1 / max(leg_s, 1e-4) ** 2
        x = _features(uncached, cached)
        for i in range(3):
            for j in range(3):
                self._gram[i][j] = _FORGET * self._gram[i][j] + weight * x[i] * x[j]
            self._moment[i] = _FORGET * self._moment[i] + weight * x[i] * leg_s
        self._legs += 1
        self._solution = None

    def predict_s(self, *, uncached: int, cached: int) -> float | None:
        """Return S for one prompt; `None` before a few legs were seen."""
        if self._legs < _FEWEST_LEGS:
            return None
        if self._solution is None:
            self._solution = _nonnegative_solution(self._gram, self._moment)
        # Asked of each of those who wait, at each look at the queue: no loop.
        a0, a1, a2 = self._solution
        x0, x1, x2 = _features(uncached, cached)
        return a0 * x0 + a1 * x1 + a2 * x2


def _features(uncached: int, cached: int) -> tuple[float, float, float]:
    u = uncached / 1000
    return 1.0, u, u * (cached + uncached / 2) / 1000


def _nonnegative_solution(gram: list[list[float]], moment: list[float]) -> tuple[float, ...]:
    """Return the best of the least-squares solutions on each subset that has no negative part."""
    best, best_gain = (0.0, 0.0, 0.0), -1.0
    for size in (3, 2, 1):
        for active in combinations(range(3), size):
            part = _solve(
                [[gram[i][j] for j in active] for i in active], [moment[i] for i in active]
            )
            if part is None or min(part) < 0:
                continue
            gain = sum(a * moment[i] for a, i in zip(part, active, strict=True))
            if gain > best_gain * (1 + 1e-9):
                whole = [0.0, 0.0, 0.0]
                for a, i in zip(part, active, strict=True):
                    whole[i] = a
                best, best_gain = (whole[0], whole[1], whole[2]), gain
    return best


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """Return the solution of a small symmetric system, `None` where the data cannot tell."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    scale = [matrix[i][i] for i in range(size)]
    for i in range(size):
        pivot = rows[i][i]
        if pivot <= 1e-9 * max(scale[i], 1e-300):
            return None
        for k in range(i + 1, size):
            factor = rows[k][i] / pivot
            for j in range(i, size + 1):
                rows[k][j] -= factor * rows[i][j]
    solution = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][j] * solution[j] for j in range(i + 1, size))
        solution[i] = (rows[i][size] - rest) / rows[i][i]
    return solution


class Mean:
    """A mean that forgets; `None` before the first value, unless it begins with one."""

    def __init__(self, *, keep: float = 0.95, value: float | None = None) -> None:
        self._keep = keep
        self.value = value

    def add(self, value: float) -> None:
        """Take one value."""
        if self.value is None:
            self.value = value
        else:
            self.value = self._keep * self.value + (1 - self._keep) * value
