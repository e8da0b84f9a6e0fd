"""The time limits of the phases of a request: each phase leaves time for the later ones.

An expectation can be wrong. So a phase reserves at most half of the time that is left, and a
request can always wait for the other half.
"""

from enum import Enum, auto

from tandem_routing.deadline_queue import Expected

_TIMES = 2.0
# A start that has to fetch an image or weights once more takes longer than most.
_WAKE_TIMES = 2.0
# Where nothing is expected of a request yet, it needs some time all the same.
_LEAST_SHARE = 0.05


class Stage(Enum):
    """The phases that a request still needs: both legs, a decode pod alone, or the last leg."""

    PREFILL = auto()
    WHOLE = auto()
    DECODE = auto()


def to_first_token_s(expected: Expected, *, stage: Stage, prefill_leg_s: float | None) -> float:
    """Return the expected time to a first token, from a stage on.

    `prefill_leg_s` is the usual time at a prefill pod; `None`: it is not known.
    """
    if stage is Stage.DECODE:
        return expected.rest_s
    if stage is Stage.WHOLE:
        return expected.rest_s + expected.whole_s
    # Its leg is longer than its prefill alone where pods have others as well.
    return expected.rest_s + max(expected.service_s, prefill_leg_s or 0.0)


def hold_for_wake_s(wake_s: float) -> float:
    """Return how much longer a request may wait that arrived while the pool was at zero."""
    return _WAKE_TIMES * wake_s


def needed_s(expected_s: float, *, whole_s: float) -> float:
    """Return the time to reserve for work that should take `expected_s`, of `whole_s` in all."""
    return max(_TIMES * expected_s, _LEAST_SHARE * whole_s)


def begin_by_s(deadline_s: float, *, needed: float, now: float) -> float:
    """Return the time until which a request can wait, so that the next phase has enough time."""
    return deadline_s - min(needed, 0.5 * max(0.0, deadline_s - now))
