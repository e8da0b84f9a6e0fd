"""What the decisions of `core/quota` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaTuning:
    """The numbers of `core/quota`. Each says its unit, what it means, and where it is from."""

    stickiness_ratio: float = 1.0
    """How much more good requests count on GPUs that a pool asks for already, over their
    number. At 1 another pool must gain twice as much from them. Each change of hands costs a
    start. Chosen by hand."""

    crest_s: float = 30.0
    """How long a pool claims by its most demanding curve: a dip of one tick gives no GPU away.

    Chosen by hand.
    """
