"""How much more load fewer replicas must bear before one is given back.

A rate is known no better than chance lets the last requests tell it, and no better than the length
of the history lets it. A replica given back on a low that was chance is bought again on the next
high, for a whole start: so a low must be lower than chance alone makes it.
"""

from math import sqrt

from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def tells_enough(arrivals: Arrivals, *, since_s: float | None, tuning: Tuning = TUNING) -> bool:
    """Whether a fleet may be smaller for what is known of its traffic, which began at `since_s`.

    A router that was started again hides what came before it: its clients may yet return.
    """
    sizing = tuning.sizing
    if arrivals.known_s >= sizing.seen_s:
        return True
    first_s = arrivals.end_s - arrivals.known_s
    # Between the start of a pool's first router and its history lies what had waited for it.
    whole = since_s is None or first_s <= since_s + (
        tuning.observe.reached_s + tuning.observe.herd_s
    )
    long = arrivals.known_s >= sizing.early_s
    return whole and long and sum(arrivals.counts) >= sizing.early_requests


def headroom(
    *, rate_rps: float, dispersion: float, known_s: float, tuning: Tuning = TUNING
) -> float:
    """Share of load that fewer replicas must bear on top of what is forecast.

    `dispersion` is the variance of the arrivals over that of a Poisson process of their rate,
    `known_s` the length of the history.
    """
    sizing = tuning.sizing
    requests = max(sizing.headroom_rate_requests, sizing.headroom_rate_s * rate_rps)
    chance = sizing.headroom_deviations * sqrt(dispersion / requests)
    doubt = sqrt(max(1.0, sizing.seen_s / max(1.0, known_s)))
    share = min(sizing.most_headroom_share, max(sizing.least_headroom_share, chance))
    return doubt * (1.0 + share) - 1.0
