"""How a request's time to first token is shared: whoever waits first leaves the rest its part.

What is expected may be wrong, so it never takes more than half of what is left: a bad guess makes
nobody wait for less than that.
"""

_TIMES = 2.0
# Where nothing is expected of a request yet, it needs some time all the same.
_LEAST_SHARE = 0.05


def needed_s(expected_s: float, *, whole_s: float) -> float:
    """Return the time to leave for what is expected to take `expected_s`, of `whole_s` in all."""
    return max(_TIMES * expected_s, _LEAST_SHARE * whole_s)


def begin_by_s(deadline_s: float, *, needed: float, now: float) -> float:
    """Return until when to wait, so that what comes next has the time it needs."""
    return deadline_s - min(needed, 0.5 * max(0.0, deadline_s - now))
