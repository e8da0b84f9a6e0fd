"""The interval of a difference over several traffics of one kind, paired seed by seed.

One traffic is one draw. A difference of two specs on it may hold for all such traffic, or come from
the luck of that draw. Only several draws tell the two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from tandem_operator.cli.units import UNKNOWN

NO_DIFFERENCE = "no difference that this traffic can show"
# Student's t at 97.5 %, by degrees of freedom; the last value also serves for more.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """The mean of a difference, and the range of its true mean with 95 % confidence."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def shown(self) -> bool:
        """Return whether the difference is larger than chance explains."""
        return self.low > NOTHING or self.high < -NOTHING

    @property
    def none_at_all(self) -> bool:
        """Return whether no seed showed any difference."""
        return max(abs(self.low), abs(self.high)) <= NOTHING

    def times(self, factor: float) -> "Interval":
        """Return the same interval in another unit."""
        ends = sorted((self.low * factor, self.high * factor))
        return Interval(self.mean * factor, ends[0], ends[1], self.seeds)

    def to_json(self) -> dict[str, float | bool]:
        """Return the interval for programs."""
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "seeds": self.seeds,
            "shown": self.shown,
        }


def interval(differences: Sequence[float]) -> Interval | None:
    """Return the interval of a difference; `None` for fewer than two seeds: they give no spread."""
    count = len(differences)
    if count < 2:
        return None
    middle = mean(differences)
    t = T_975[min(count - 1, len(T_975)) - 1]
    half = t * stdev(differences) / sqrt(count)
    return Interval(middle, middle - half, middle + half, count)


def difference(new: Sequence[float | None], old: Sequence[float | None]) -> Interval | None:
    """Return the interval of new less old, seed by seed; `None` if one value is not known."""
    if any(value is None for value in (*new, *old)):
        return None
    return interval([(b or 0.0) - (a or 0.0) for a, b in zip(old, new, strict=True)])


def percent(found: Interval | None, to: float | None) -> str:
    """Return the ends of an interval as shares of `to`: `+8.0% to +16.3%`."""
    if found is None or not to:
        return UNKNOWN
    return _ends(found.times(100.0 / to), "%", digits=1)


def points(found: Interval | None) -> str:
    """Return the ends of an interval of shares: `-0.10 to +0.25 points`."""
    return UNKNOWN if found is None else _ends(found.times(100.0), " points", digits=2)


def _ends(found: Interval, unit: str, *, digits: int) -> str:
    if found.none_at_all:
        return ""
    first = "%" if unit == "%" else ""
    text = f"{found.low:+.{digits}f}{first} to {found.high:+.{digits}f}{unit}"
    return text if found.shown else f"{text}: none shown"
