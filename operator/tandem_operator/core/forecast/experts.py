"""Simple forecasters of the arrival rate; each predicts all horizons at once.

None is right everywhere: means are best on level traffic and after a step, damped lines on ramps,
and sines on periodic traffic. The mixture in `forecaster.py` weights them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from typing import Protocol

from tandem_operator.core.tuning.tuning import TUNING, Tuning


class Expert(Protocol):
    """One forecaster: the rates at some horizons after the counts."""

    def __call__(
        self,
        counts: Sequence[float],
        horizons_s: Sequence[float],
        /,
        *,
        tuning: Tuning = TUNING,
    ) -> list[float]:
        """Return the rate at each of the horizons."""
        ...


def mean(window_s: int, *, requests: int) -> Expert:
    """Return the mean of the last `window_s` seconds, or of more until it has `requests` requests.

    At one request a second, half a minute gives the rate only within a fifth.
    """

    def predict(
        counts: Sequence[float], horizons_s: Sequence[float], *, tuning: Tuning = TUNING
    ) -> list[float]:
        longest = min(len(counts), tuning.forecast.mean_longest_s)
        size = min(len(counts), window_s)
        total = sum(counts[-size:])
        while size < longest and total < requests:
            size += 1
            total += counts[-size]
        return [total / size] * len(horizons_s)

    return predict


def line(window_s: int, *, slope_share: float = 1.0) -> Expert:
    """Return a damped straight line through the last `window_s` seconds.

    The slope is shrunk by its significance under Poisson noise. At a few requests per second the
    slope of a window is mostly chance, and extrapolated chance would add replicas.
    """

    def predict(
        counts: Sequence[float], horizons_s: Sequence[float], *, tuning: Tuning = TUNING
    ) -> list[float]:
        doubt, damping_s = tuning.forecast.slope_doubt_variances, tuning.forecast.damping_s
        recent = counts[-window_s:]
        size = len(recent)
        centre = (size - 1) / 2.0
        level = sum(recent) / size
        spread = size * (size * size - 1) / 12.0
        slope = 0.0
        if spread > 0.0 and level > 0.0:
            slope = sum((i - centre) * y for i, y in enumerate(recent)) / spread
            strength = slope * slope * spread / level
            slope *= slope_share * strength**2 / (strength**2 + doubt**2)
        return [
            max(0.0, level + slope * (damping_s * (1.0 - exp(-h / damping_s)) + centre))
            for h in horizons_s
        ]

    return predict


@dataclass(frozen=True, slots=True)
class Hired:
    """An expert in the mixture.

    Attributes:
        worth: its weight before any of its predictions was compared. Level traffic and steps are
            more common than ramps, and a wrong line has a larger error.
        needs_s: history that it needs: a slope through half a window is chance.
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
    counts: Sequence[float],
    horizons_s: Sequence[float],
    *,
    step_age_s: int | None = None,
    tuning: Tuning = TUNING,
) -> dict[str, list[float]]:
    """Return the rates at every horizon of every expert that has enough history.

    After a step `step_age_s` ago, means and lines use only the time since: a line over a step would
    look like a ramp.
    """
    since = counts if step_age_s is None else counts[-step_age_s:]
    return {
        name: hired.predict(since, horizons_s, tuning=tuning)
        for name, hired in EXPERTS.items()
        if len(since) >= hired.needs_s
    }
