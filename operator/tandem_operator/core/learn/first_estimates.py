"""First estimates of an engine before any traffic: two measured numbers, and one prior."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem_operator.core.learn.least_squares import Triple

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FirstEstimate:
    """A first guess of three linear coefficients.

    Attributes:
        third_s: per token of context or cache, by profile or data sheet; `None`: not known.
        measured: whether the first two are an engine's own measurements, not by profile or data
            sheet.
    """

    fixed_s: float
    slope_s: float
    third_s: float | None = None
    measured: bool = True

    def ratio(self, to: "FirstEstimate | None", *, at: Pair) -> float:
        """Return its time over that of another measured estimate; 1 without one."""
        if to is None or not (to.measured and self.measured):
            return 1.0
        new_s, old_s = (each.fixed_s * at[0] + each.slope_s * at[1] for each in (self, to))
        return new_s / old_s if old_s > 0.0 else 1.0


def first_estimate(
    before: FirstEstimate | None, measured: Pair | None, prior: Triple | None, *, as_: int
) -> FirstEstimate | None:
    """Return the guess after one more engine reported; `before` itself if that adds nothing.

    The third coefficient of the prior is scaled by the ratio of the measurement numbered `as_` to
    the prior, if the engine is faster. A slower engine can have other causes than memory and
    arithmetic.
    """
    if measured is None:
        if before is not None or prior is None:
            return before
        return FirstEstimate(*prior, measured=False)
    first = FirstEstimate(*measured)
    if prior is not None:
        return replace(first, third_s=prior[2] * min(1.0, measured[as_] / prior[as_]))
    if before is not None and before.third_s is not None:
        at = (1.0, 0.0) if as_ == 0 else (0.0, 1.0)
        return replace(first, third_s=before.third_s * first.ratio(before, at=at))
    return first


def through(points: Sequence[Pair]) -> Pair | None:
    """Return intercept and slope, both >= 0, of the line through the first and the last point.

    Returns `None` without two different points.
    """
    if len(points) < 2:
        return None
    (x0, y0), (x1, y1) = points[0], points[-1]
    if x1 <= x0 or y1 <= 0.0:
        return None
    # By chance the longer one may be quicker, or the shorter one quicker than its share.
    if y1 <= y0:
        return (y1, 0.0)
    if y0 * x1 <= y1 * x0:
        return (0.0, y1 / x1)
    slope = (y1 - y0) / (x1 - x0)
    return (y1 - slope * x1, slope)
