"""The numbers that tune the decisions of `core/quota`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaTuning:
    """The numbers of `core/quota`. Each has its unit, its meaning and its source."""

    stickiness_ratio: float = 1.0
    """Extra weight of good requests on GPUs that a pool already asks for, over their number. At 1,
    another pool must gain twice as much from these GPUs. Each move of a GPU costs a start. Chosen
    by hand."""

    crest_s: float = 30.0
    """Time for which a pool claims by its most demanding curve, so that a dip of one tick gives no
    GPU away. Chosen by hand."""
