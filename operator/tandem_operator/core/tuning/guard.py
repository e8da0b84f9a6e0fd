"""What the decisions of `core/guard`, and of the steps of `decide` itself, are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardTuning:
    """The numbers of `core/guard` and of the steps of `decide`.

    Each says its unit, what it means, and where it is from.
    """

    confirm_s: float = 4.5
    """How long a growth that is surely needed must have been wanted. That is two ticks of 5 s.
    Chosen by hand."""

    confirm_small_s: float = 14.5
    """How long a growth must have been wanted that a little less load would not call for. Such
    a need often is chance. Four ticks of 5 s span that time. Chosen by hand."""

    trade_s: float = 30.0
    """The longest stabilisation window of a role whose spare GPUs the other role needs.

    Chosen by hand.
    """

    unseen_s: float = 30.0
    """The longest time between two ticks that a want counts as watched over. Chosen by hand."""

    router_busy_share: float = 0.5
    """Of one core, what each router may use before more routers come.

    One core is all that a router can use. Half of it is chosen by hand.
    """

    router_spare_share: float = 0.35
    """Of one core, what each router may use once fewer routers are left. It lies below
    `router_busy_share`, so that a load between the two changes nothing. Chosen by hand."""

    router_shrink_after_s: float = 300.0
    """How long fewer routers must have been enough before one goes. Chosen by hand."""

    idle_s: int = 60
    """How long nothing may have arrived, at least, before a pool counts as idle.

    A longer stabilisation window takes its place. Chosen by hand.
    """
