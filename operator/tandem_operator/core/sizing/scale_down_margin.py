"""The extra load that fewer replicas must be able to serve before one is removed.

The last requests give a rate only as far as chance and the length of the history allow. A replica
that was removed because of a chance low comes back at the next high, and costs a whole start. So
the rate must be lower than chance alone makes it.
"""

from math import sqrt

from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def tells_enough(arrivals: Arrivals, *, since_s: float | None, tuning: Tuning = TUNING) -> bool:
    """Return whether enough is known of the traffic since `since_s` for a smaller fleet.

    A restarted router does not know the traffic before: its clients may return.
    """
    sizing = tuning.sizing
    if arrivals.known_s >= sizing.seen_s:
        return True
    first_s = arrivals.end_s - arrivals.known_s
    # Between the start of a pool's first router and its history lie the requests that waited for
    # it.
    whole = since_s is None or first_s <= since_s + (
        tuning.observe.reached_s + tuning.observe.herd_s
    )
    long = arrivals.known_s >= sizing.early_s
    return whole and long and sum(arrivals.counts) >= sizing.early_requests


def headroom(
    *, rate_rps: float, dispersion: float, known_s: float, tuning: Tuning = TUNING
) -> float:
    """Return the share of load beyond the forecast that fewer replicas must be able to serve.

    `dispersion` is the variance of the arrivals over that of a Poisson process of their rate,
    `known_s` the length of the history.
    """
    sizing = tuning.sizing
    requests = max(sizing.headroom_rate_requests, sizing.headroom_rate_s * rate_rps)
    chance = sizing.headroom_deviations * sqrt(dispersion / requests)
    doubt = sqrt(max(1.0, sizing.seen_s / max(1.0, known_s)))
    share = min(sizing.most_headroom_share, max(sizing.least_headroom_share, chance))
    return doubt * (1.0 + share) - 1.0
