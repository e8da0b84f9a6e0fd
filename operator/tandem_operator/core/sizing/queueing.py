"""The late share before n servers in closed form: steady traffic, no bursts, no replay."""

from math import exp, sqrt

FULL = 1e-3
MOST_EXPONENT = 50.0


def queue_late_share(
    rate_rps: float, servers: float, *, service_s: float, cv2: float, patience_s: float
) -> float:
    """Return the share of Poisson arrivals that would wait for longer than `patience_s`.

    The loss of a queue whose wait is bounded (Barrer 1957, for one exponential server), with
    Sakasegawa's probability of a wait before several servers (1977), and with the wait scaled to
    the squared coefficient of variation `cv2` of service times, as in heavy traffic (Kingman 1961).
    """
    if rate_rps <= 0.0:
        return 0.0
    if servers <= 0.0:
        return 1.0
    load = rate_rps * service_s / servers
    if abs(1.0 - load) < FULL:
        # The formula is 0 / 0 at full load, and smooth around it.
        load = 1.0 - FULL
    waits: float = load ** (sqrt(2.0 * (servers + 1.0)) - 1.0)
    spread_s = service_s * (1.0 + cv2) / (2.0 * servers)
    exponent = -(1.0 - load) * patience_s / max(spread_s, 1e-9)
    tail = waits * exp(min(MOST_EXPONENT, exponent))
    return min(1.0, max(0.0, (1.0 - load) * tail / (1.0 - load * tail)))
