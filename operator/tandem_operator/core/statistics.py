"""Tell a change from chance."""

CHANCE = 2.0


def believed(recent: float, overall: float, *, variance: float) -> float:
    """A recent mean, drawn to the overall one as far as their difference may be chance.

    `variance` is that of the recent mean.
    """
    shift = recent - overall
    if shift == 0.0:
        return overall
    return overall + shift * max(0.0, 1.0 - CHANCE * variance / (shift * shift))
