"""Find a climb that has begun: a level, and a straight rise since some moment.

A short line through few requests is mostly chance, and a long one reaches back before the climb. So
the moment is fitted as well. A climb must explain the recent traffic better than a step does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp

from tandem_operator.core.observe.demand_history import BUCKET_S, DemandHistory, vary_by_chance
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Climb:
    """A climb up to now.

    Attributes:
        rate_rps: the fitted rate now.
        slope: its growth, in requests per second, each second.
        age_s: the time for which it has lasted.
        certainty: the squares that it explains, over the chance variance of one bin.
    """

    rate_rps: float
    slope: float
    age_s: float
    certainty: float

    def at(self, horizon_s: float) -> float:
        """Return the rate after `horizon_s`.

        Without any other knowledge, a thing that has lasted for some time goes on for about as long
        again (J. R. Gott, Nature 363, 1993). So the slope fades with the climb's age.
        """
        return self.rate_rps + self.slope * self.age_s * (1.0 - exp(-horizon_s / self.age_s))


def climb_out_of_level(
    history: DemandHistory, counts: Sequence[float], *, tuning: Tuning = TUNING
) -> Climb | None:
    """Return a climb that is certain, and before which the traffic was level.

    Each rise of a wave looks like a climb too, and does not go on for as long as it lasted.
    """
    found = climb_of(counts, tuning=tuning)
    if found is None or found.certainty < tuning.forecast.climb_certain_variances:
        return None
    since = ceil(found.age_s / BUCKET_S) + 1
    before = history.known_requests(tuning.objective.level_window_s, without=since)
    return found if vary_by_chance(before, tuning=tuning) else None


def climb_of(counts: Sequence[float], *, tuning: Tuning = TUNING) -> Climb | None:
    """Return the climb that explains the recent requests per second best, or `None`."""
    numbers = tuning.forecast
    size_s = numbers.climb_bin_s
    kept_s = min(len(counts), numbers.climb_window_s) // size_s * size_s
    recent = counts[len(counts) - kept_s :]
    bins = [sum(recent[i : i + size_s]) for i in range(0, kept_s, size_s)]
    size, least = len(bins), numbers.climb_least_bins
    if size < 2 * least or not any(bins):
        return None
    mean = sum(bins) / size
    residuals = [each - mean for each in bins]
    squares = sum(each * each for each in residuals)
    # By the age of a climb or step, in bins: residuals since then, and as often as bins follow.
    tail = weighted = 0.0
    best_gain, best_age, best_slope, step_gain = 0.0, 0, 0.0, 0.0
    for age in range(1, size + 1):
        weighted += tail + 0.5 * residuals[size - age]
        tail += residuals[size - age]
        if age < size:
            step_gain = max(step_gain, tail * tail * size / (age * (size - age)))
        if age < least or weighted <= 0.0:
            continue
        # A climb is at .5, 1.5, ... in the bins since its begin, and at zero before.
        mean_of_climb = age * age / (2.0 * size)
        own = age * (4 * age * age - 1) / 12.0 - size * mean_of_climb * mean_of_climb
        gain = weighted * weighted / own
        if gain > best_gain:
            best_gain, best_age, best_slope = gain, age, weighted / own
    if not best_age or best_gain < step_gain:
        return None
    noise = max(mean, (squares - best_gain) / max(1, size - 3))
    now = mean + best_slope * (best_age - best_age * best_age / (2.0 * size))
    return Climb(
        rate_rps=now / size_s,
        slope=best_slope / size_s / size_s,
        age_s=float(best_age * size_s),
        certainty=best_gain / noise,
    )
