"""Distinguish a change from chance."""

from tandem_operator.core.tuning.tuning import TUNING, Tuning


def believed(recent: float, overall: float, *, variance: float, tuning: Tuning = TUNING) -> float:
    """Return a recent mean, moved to the overall mean as far as chance explains the difference.

    `variance` is that of the recent mean.
    """
    shift = recent - overall
    if shift == 0.0:
        return overall
    chance = tuning.observe.chance_variances
    return overall + shift * max(0.0, 1.0 - chance * variance / (shift * shift))
