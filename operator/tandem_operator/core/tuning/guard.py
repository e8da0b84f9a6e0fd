"""The numbers that tune the decisions of `core/guard`, and of the steps of `decide` itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardTuning:
    """The numbers of `core/guard` and of the steps of `decide`.

    Each has its unit, its meaning and its source.
    """

    confirm_s: float = 4.5
    """Time for which growth that is clearly needed must have been wanted. That is two ticks of 5 s.
    Chosen by hand."""

    confirm_small_s: float = 14.5
    """Time for which growth must have been wanted that a little less load would not need. Such a
    need often is chance. Four ticks of 5 s span that time. Chosen by hand."""

    trade_s: float = 30.0
    """The longest stabilisation window of a role whose spare GPUs the other role needs.

    Chosen by hand.
    """

    unseen_s: float = 30.0
    """The longest time between two ticks over which a want still counts as continuous. Chosen by
    hand."""

    router_busy_share: float = 0.5
    """Share of one core above which more routers are added. One core is all that a router can use.
    Half of it is chosen by hand."""

    router_spare_share: float = 0.35
    """Share of one core that each remaining router may use before one router is removed. It lies
    below `router_busy_share`, so that a load between the two changes nothing. Chosen by hand."""

    router_shrink_after_s: float = 300.0
    """Time for which fewer routers must have been enough before one is removed. Chosen by hand."""

    pauses_kept: int = 8
    """Number of latest pauses that are remembered of a pool that may sleep. A pause is a time
    without requests that was longer than `scaling.scaleToZeroAfter`. Chosen by hand."""

    least_pauses: int = 2
    """Number of pauses that must be known before Tandem keeps a pool awake for longer than its spec
    says. Chosen by hand."""

    longest_break_even_s: float = 1800.0
    """The longest time that Tandem keeps a pool awake beyond its spec. Chosen by hand."""

    schedule_start_share: float = 0.99
    """Share of the latest starts that take no longer than the time by which Tandem starts pods
    before a schedule begins. Of the 32 starts that are remembered, it takes the slowest. Chosen by
    hand."""

    schedule_start_ratio: float = 1.25
    """Factor on that time. A fleet is ready with the slowest of its pods, and the next one can be
    slower than all before. Chosen by hand."""

    idle_s: int = 60
    """The least time without arrivals before a pool counts as idle. A longer stabilisation window
    replaces it. Chosen by hand."""
