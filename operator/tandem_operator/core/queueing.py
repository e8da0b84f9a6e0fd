"""How many are late before n servers, in closed form: steady traffic, no bursts, no replay."""

from math import exp, sqrt

FULL = 0.999


def queue_late_share(
    rate_rps: float, servers: int, *, service_s: float, cv2: float, patience_s: float
) -> float:
    """Share of Poisson arrivals that would wait longer than `patience_s`, and give way instead.

    Below full load it is the tail of the wait in heavy traffic (Kingman 1961), with Sakasegawa's
    approximation (1977) of the chance to wait at all. Above, the excess gives way. `cv2` is the
    squared coefficient of variation of service times.
    """
    if rate_rps <= 0.0:
        return 0.0
    if servers < 1:
        return 1.0
    load = rate_rps * service_s / servers
    excess = 1.0 - 1.0 / load if load > 1.0 else 0.0
    busy = min(load, FULL)
    waits: float = busy ** (sqrt(2.0 * (servers + 1.0)) - 1.0)
    spread_s = service_s * (1.0 + cv2) / (2.0 * servers * (1.0 - busy))
    # A request that gives way makes room for those behind it.
    return max(excess, (1.0 - 0.5 * busy) * waits * exp(-patience_s / max(spread_s, 1e-9)))
