"""What is known of an engine by its model and its hardware alone, the nearest source first."""

from tandem_operator.core.learn.roofline import Prior, roofline
from tandem_operator.core.learn.shipped_profiles import profiled
from tandem_operator.core.observation import StartUp
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def prior_of(start_up: StartUp, *, tuning: Tuning = TUNING) -> Prior | None:
    """The shipped profile of this model on this hardware, or else what its data sheet allows.

    `None` where the engine does not say what it runs on, or where that is not listed.
    """
    if start_up.shape is None or start_up.hardware is None:
        return None
    return profiled(start_up.shape, start_up.hardware, tuning=tuning) or roofline(
        start_up.shape, start_up.hardware, tuning=tuning
    )
