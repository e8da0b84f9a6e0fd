"""Online estimates: the prefill service time, and means that one sample cannot distort.

At the start no value is known. An unknown value is `None` until data come.
"""

from math import inf
from statistics import median

from tandem_least_squares import nonnegative_solution

_HALF_LIFE_LEGS = 200
_FORGET = 0.5 ** (1 / _HALF_LIFE_LEGS)
_FEWEST_LEGS = 4
# Times as long, or as short, as expected: further is an accident, or another engine soon.
_FARTHEST = 3.0
_FIRST_VALUES = 5
# Times as long: legs of more alike lengths do not tell what part of a time all lengths share.
_UNLIKE = 1.5

MOST_MOVE = 0.1
"""The largest share by which one sample can change an estimate."""


_Features = tuple[float, float, float]


class ServiceTime:
    """S(u) = a0 + a1 u + a2 u ctx, the time of a prefill that is alone on its pod.

    Weighted least squares with forgetting and without negative coefficients, from prefill legs that
    were alone on their pod. Weights are relative, so that a long prompt does not outweigh the short
    ones. A measurement far from the expectation is limited: one leg changes a prediction by at most
    `MOST_MOVE`. Only the first leg of another length may change more: until then S is in proportion
    to the tokens, since alike legs do not tell its fixed part, a0.
    """

    def __init__(self) -> None:
        self._legs = 0
        self._first: list[tuple[_Features, float]] = []
        self._gram = [[0.0] * 3 for _ in range(3)]
        self._moment = [0.0] * 3
        self._solution: _Features | None = None
        self._shortest, self._longest = inf, 0

    def learn(self, *, uncached: int, cached: int, leg_s: float) -> None:
        """Learn from one leg that was alone on its pod."""
        x = _features(uncached, cached)
        self._legs += 1
        were_alike = self._alike
        self._shortest, self._longest = min(self._shortest, uncached), max(self._longest, uncached)
        if self._solution is None:
            self._first.append((x, leg_s))
            if self._legs == _FEWEST_LEGS:
                self._begin()
            return
        expected_s = max(1e-4, _time_s(self._solution, x))
        leg_s = min(_FARTHEST * expected_s, max(expected_s / _FARTHEST, leg_s))
        self._take(x, leg_s, weight=1 / expected_s**2)
        fresh = self._fitted()
        if were_alike and not self._alike:
            self._solution = fresh
            return
        # Times are linear in the coefficients: so much of the way is so much of the move.
        far = max(
            abs(_time_s(fresh, at) / max(1e-9, _time_s(self._solution, at)) - 1)
            # In proportion, all lengths move by the same share.
            for at in ((x,) if self._alike else (x, *_LOOKED_AT))
        )
        share = min(1.0, MOST_MOVE / far) if far else 1.0
        self._solution = _between(self._solution, fresh, share)

    def _begin(self) -> None:
        """Fit the first legs; a very short leg must not outweigh the others."""
        usual_s = median(leg_s for _, leg_s in self._first)
        for x, leg_s in self._first:
            self._take(x, leg_s, weight=1 / max(leg_s, usual_s / _FARTHEST, 1e-4) ** 2)
        self._solution = self._fitted()
        self._first.clear()

    @property
    def _alike(self) -> bool:
        return self._longest < _UNLIKE * self._shortest

    def _fitted(self) -> _Features:
        """Return the best fit; while all legs are alike, a time in proportion to the tokens."""
        if self._alike and self._gram[1][1] > 0.0:
            return 0.0, self._moment[1] / self._gram[1][1], 0.0
        return nonnegative_solution(self._gram, self._moment)

    def _take(self, x: _Features, leg_s: float, *, weight: float) -> None:
        for i, row in enumerate(self._gram):
            heavy = weight * x[i]
            self._gram[i] = [_FORGET * old + heavy * one for old, one in zip(row, x, strict=True)]
            self._moment[i] = _FORGET * self._moment[i] + heavy * leg_s

    def predict_s(self, *, uncached: int, cached: int) -> float | None:
        """Return S for one prompt; `None` before the first few legs."""
        if self._solution is None:
            return None
        return _time_s(self._solution, _features(uncached, cached))


def _features(uncached: int, cached: int) -> _Features:
    u = uncached / 1000
    return 1.0, u, u * (cached + uncached / 2) / 1000


def _time_s(solution: _Features, x: _Features) -> float:
    # Each look at the queue calls this for each waiting request: so it has no loop.
    return solution[0] * x[0] + solution[1] * x[1] + solution[2] * x[2]


def _between(one: _Features, other: _Features, share: float) -> _Features:
    a, b, c = (u + share * (v - u) for u, v in zip(one, other, strict=True))
    return a, b, c


# Where a prediction may not jump: short, middling and long prompts.
_LOOKED_AT = tuple(_features(uncached, 0) for uncached in (0, 100, 1000, 10_000, 100_000))


class Mean:
    """A mean that forgets; `None` before the first value, unless it begins with one.

    With `most_move`, one value changes it by at most this share. Before a handful of values, it is
    their median.
    """

    def __init__(
        self, *, keep: float = 0.95, value: float | None = None, most_move: float | None = None
    ) -> None:
        self._keep = keep
        self._most_move = most_move
        self._first: list[float] | None = [] if most_move is not None and value is None else None
        self.value = value

    def add(self, value: float) -> None:
        """Add one value."""
        if self._first is not None:
            self._first.append(value)
            self.value = median(self._first)
            if len(self._first) == _FIRST_VALUES:
                self._first = None
        elif self.value is None:
            self.value = value
        else:
            old, most = self.value, self._most_move
            fresh = old + (1 - self._keep) * (value - old)
            self.value = fresh if most is None else moved(old, fresh, most=most)


def moved(old: float, fresh: float, *, most: float) -> float:
    """Return `fresh`, or the nearest value that one sample can move a positive estimate to."""
    if old <= 0 or abs(fresh - old) <= old * most:
        return fresh
    return old * (1 + most) if fresh > old else old * (1 - most)
