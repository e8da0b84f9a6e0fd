"""How long answers are, from those that ended: while traffic grows, too few of these are long ones.

A request ends some time after it arrived, later the longer its answer is. While arrivals grow by a
share `g` per second, an answer of `n` tokens, each of which takes `s` seconds, is under-represented
among those that end by `exp(-g s n)`. To first order in `g` the mean of those that end is too small
by `g s` times the variance of the lengths, and too large by as much while arrivals fall.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import outcomes
from tandem_operator.core.statistics import believed

WINDOW_S, RECENT_S = 180, 30
PRIOR_REQUESTS, ENOUGH_ANSWERS = 10.0, 30
MOST_CV2 = 4.0
# Growth is measured between half minutes so far apart. With this many requests more in both, a
# handful of them is no growth.
RECENT_GROWTH_S, LEAST_COUNTED = 60, 10.0
# First order ends where the correction is no longer small.
MOST_CORRECTION = 0.25


@dataclass(frozen=True, slots=True)
class Outputs:
    """Output tokens per request: mean and squared coefficient of variation."""

    mean_tokens: float
    cv2: float


def output_lengths(
    reports: Sequence[RouterReport],
    last: Outputs | None,
    *,
    counts: Sequence[float],
    token_s: float | None,
    step_s: float,
) -> Outputs | None:
    """Output lengths of what arrives, the last half minute counting most.

    Args:
        reports: what ended, by second, as each router tells it.
        last: the answer of before, for as long as nothing ends; `None`: there is none.
        counts: arrivals by second, the newest last.
        token_s: the usual time per token; `None` while it is not known: nothing is corrected.
        step_s: how long ago `last` was found.
    """
    window = outcomes(reports, window_s=WINDOW_S)
    if window.answered == 0 or window.output_tokens == 0:
        return last
    recent = outcomes(reports, window_s=RECENT_S)
    overall = window.output_tokens / window.answered
    mean = (recent.output_tokens + PRIOR_REQUESTS * overall) / (recent.answered + PRIOR_REQUESTS)
    variance = max(0.0, window.output_tokens_squared / window.answered - overall * overall)
    missing = (token_s or 0.0) * variance
    mean = _corrected(mean, missing * _growth(counts, RECENT_GROWTH_S))
    overall = _corrected(overall, missing * _growth(counts, WINDOW_S))
    mean = believed(mean, overall, variance=variance / (recent.answered + PRIOR_REQUESTS))
    found = Outputs(mean_tokens=max(1.0, mean), cv2=min(MOST_CV2, variance / (overall * overall)))
    if last is None or window.answered >= ENOUGH_ANSWERS:
        return found
    # A few answers are seen again at each look until they leave the window: each counts once.
    share = min(1.0, step_s / WINDOW_S) * window.answered / (window.answered + PRIOR_REQUESTS)
    return Outputs(
        mean_tokens=last.mean_tokens + share * (found.mean_tokens - last.mean_tokens),
        cv2=last.cv2 + share * (found.cv2 - last.cv2),
    )


def _corrected(mean: float, missing: float) -> float:
    return mean + min(MOST_CORRECTION * mean, max(-MOST_CORRECTION * mean, missing))


def _growth(counts: Sequence[float], apart_s: int) -> float:
    """The share by which arrivals grew per second; 0 where the history is too short to tell."""
    if len(counts) < apart_s + RECENT_S:
        return 0.0
    now, then = sum(counts[-RECENT_S:]), sum(counts[-apart_s - RECENT_S : -apart_s])
    return log((now + LEAST_COUNTED) / (then + LEAST_COUNTED)) / apart_s
