"""The length of answers, from requests that ended, corrected for growing traffic.

A request ends some time after it arrived, and a longer answer ends later. While arrivals grow by a
share `g` per second, an answer of `n` tokens at `s` seconds each is under-represented among the
ended requests by `exp(-g s n)`. To first order in `g`, their mean is too small by `g s` times the
variance of the lengths. It is too large by as much while arrivals fall.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import outcomes
from tandem_operator.core.statistics import believed
from tandem_operator.core.tuning.tuning import TUNING, Tuning


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
    tuning: Tuning = TUNING,
) -> Outputs | None:
    """Return the output lengths of arriving requests; the last half minute counts most.

    Args:
        reports: ended requests, by second, as each router reports them.
        last: the previous result, used while no request ends; `None`: there is none.
        counts: arrivals by second, the newest last.
        token_s: the usual time per token; `None`: not known, and no correction.
        step_s: the age of `last`.
        tuning: the numbers that decide.
    """
    learning = tuning.learn
    window_s, prior = learning.outputs_window_s, learning.outputs_prior_requests
    window = outcomes(reports, window_s=window_s)
    if window.answered == 0 or window.output_tokens == 0:
        return last
    recent = outcomes(reports, window_s=learning.outputs_recent_s)
    overall = window.output_tokens / window.answered
    mean = (recent.output_tokens + prior * overall) / (recent.answered + prior)
    variance = max(0.0, window.output_tokens_squared / window.answered - overall * overall)
    missing = (token_s or 0.0) * variance
    recent_growth = _growth_per_s(counts, learning.output_growth_s, tuning=tuning)
    mean = _corrected(mean, missing * recent_growth, tuning=tuning)
    growth = _growth_per_s(counts, window_s, tuning=tuning)
    overall = _corrected(overall, missing * growth, tuning=tuning)
    mean = believed(mean, overall, variance=variance / (recent.answered + prior), tuning=tuning)
    found = Outputs(
        mean_tokens=max(1.0, mean),
        cv2=min(learning.most_outputs_cv2, variance / (overall * overall)),
    )
    if last is None or window.answered >= learning.enough_answers_requests:
        return found
    # A few answers are seen again at each look until they leave the window: each counts once.
    share = min(1.0, step_s / window_s) * window.answered / (window.answered + prior)
    return Outputs(
        mean_tokens=last.mean_tokens + share * (found.mean_tokens - last.mean_tokens),
        cv2=last.cv2 + share * (found.cv2 - last.cv2),
    )


def _corrected(mean: float, missing: float, *, tuning: Tuning = TUNING) -> float:
    most = tuning.learn.most_length_correction_share
    return mean + min(most * mean, max(-most * mean, missing))


def _growth_per_s(counts: Sequence[float], apart_s: int, *, tuning: Tuning = TUNING) -> float:
    """Return the share by which arrivals grew per second; 0 if the history is too short."""
    recent_s, prior = tuning.learn.outputs_recent_s, tuning.learn.growth_prior_requests
    if len(counts) < apart_s + recent_s:
        return 0.0
    now, then = sum(counts[-recent_s:]), sum(counts[-apart_s - recent_s : -apart_s])
    return log((now + prior) / (then + prior)) / apart_s
