"""How much more load fewer replicas must bear before one is given back.

A rate is known no better than chance lets the last requests tell it, and no better than the length
of the history lets it. A replica given back on a low that was chance is bought again on the next
high, for a whole start: so a low must be lower than chance alone makes it.
"""

from math import sqrt

from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.tuning.tuning import TUNING

LEAST_HEADROOM, MOST_HEADROOM = 0.05, 0.5
# An hour holds some hundred independent looks at a rate: three deviations below it are rare there.
DEVIATIONS = 3.0
# A rate is taken from about so many seconds, or as many more as hold so many requests.
RATE_S, RATE_REQUESTS = 30.0, 60.0
# From so much history on, what was not seen of a pool's traffic adds no doubt.
SEEN_S = 105.0
# A shorter one may do, if it is of all the traffic there was and tells a rate.
EARLY_S, EARLY_REQUESTS = 45.0, 30.0
# Between the start of a pool's first router and its history lie those who had waited for it.
FIRST_S = TUNING.observe.reached_s + TUNING.observe.herd_s


def tells_enough(arrivals: Arrivals, *, since_s: float | None) -> bool:
    """Whether a fleet may be smaller for what is known of its traffic, which began at `since_s`.

    A router that was started again hides what came before it: its clients may yet return.
    """
    if arrivals.known_s >= SEEN_S:
        return True
    first_s = arrivals.end_s - arrivals.known_s
    whole = since_s is None or first_s <= since_s + FIRST_S
    return whole and arrivals.known_s >= EARLY_S and sum(arrivals.counts) >= EARLY_REQUESTS


def headroom(*, rate_rps: float, dispersion: float, known_s: float) -> float:
    """Share of load that fewer replicas must bear on top of what is forecast.

    `dispersion` is the variance of the arrivals over that of a Poisson process of their rate,
    `known_s` the length of the history.
    """
    requests = max(RATE_REQUESTS, RATE_S * rate_rps)
    chance = sqrt(dispersion / requests)
    doubt = sqrt(max(1.0, SEEN_S / max(1.0, known_s)))
    return doubt * (1.0 + min(MOST_HEADROOM, max(LEAST_HEADROOM, DEVIATIONS * chance))) - 1.0
