"""How much more load fewer replicas must bear before one is given back.

A rate is known no better than chance lets the last requests tell it. A replica given back on a low
that was chance is bought again on the next high, for a whole start: so a low must be lower than
chance alone makes it.
"""

from math import sqrt

LEAST_HEADROOM, MOST_HEADROOM = 0.05, 0.5
# An hour holds some hundred independent looks at a rate: three deviations below it are rare there.
DEVIATIONS = 3.0
# A rate is taken from about so many seconds, or as many more as hold so many requests.
RATE_S, RATE_REQUESTS = 30.0, 60.0


def headroom(*, rate_rps: float, dispersion: float) -> float:
    """Share of load that fewer replicas must bear on top of what is forecast.

    `dispersion` is the variance of the arrivals over that of a Poisson process of their rate.
    """
    requests = max(RATE_REQUESTS, RATE_S * rate_rps)
    chance = sqrt(dispersion / requests)
    return min(MOST_HEADROOM, max(LEAST_HEADROOM, DEVIATIONS * chance))
