"""How a request's time to first token is shared: whoever waits first leaves the rest its part.

What is expected may be wrong, so it never takes more than half of what is left: a bad guess makes
nobody wait for less than that.
"""

from enum import Enum, auto

from tandem_routing.deadline_queue import Expected

_TIMES = 2.0
# Where nothing is expected of a request yet, it needs some time all the same.
_LEAST_SHARE = 0.05


class Stage(Enum):
    """What a request still has to go through: both legs, a decode pod alone, or the last leg."""

    PREFILL = auto()
    WHOLE = auto()
    DECODE = auto()


def to_first_token_s(expected: Expected, *, stage: Stage, prefill_leg_s: float | None) -> float:
    """Return how long a first token is expected to take from a stage on.

    `prefill_leg_s` is the usual time at a prefill pod; `None`: it is not known.
    """
    if stage is Stage.DECODE:
        return expected.rest_s
    if stage is Stage.WHOLE:
        return expected.rest_s + expected.whole_s
    # Its leg is longer than its prefill alone where pods have others as well.
    return expected.rest_s + max(expected.service_s, prefill_leg_s or 0.0)


def needed_s(expected_s: float, *, whole_s: float) -> float:
    """Return the time to leave for what is expected to take `expected_s`, of `whole_s` in all."""
    return max(_TIMES * expected_s, _LEAST_SHARE * whole_s)


def begin_by_s(deadline_s: float, *, needed: float, now: float) -> float:
    """Return until when to wait, so that what comes next has the time it needs."""
    return deadline_s - min(needed, 0.5 * max(0.0, deadline_s - now))
