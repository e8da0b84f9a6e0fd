"""The prior of an engine by its model and hardware alone, from the nearest source."""

from tandem_operator.core.learn.roofline import Prior, roofline
from tandem_operator.core.learn.shipped_profiles import profiled
from tandem_operator.core.observation import StartUp
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def prior_of(start_up: StartUp, *, tuning: Tuning = TUNING) -> Prior | None:
    """Return the shipped profile of this model on this hardware, or else the data sheet's prior.

    Returns `None` if the engine does not report its hardware, or the hardware is not listed.
    """
    if start_up.shape is None or start_up.hardware is None:
        return None
    return profiled(start_up.shape, start_up.hardware, tuning=tuning) or roofline(
        start_up.shape, start_up.hardware, tuning=tuning
    )
