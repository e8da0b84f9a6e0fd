"""The numbers that tune the decisions of `core/observe`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveTuning:
    """The numbers of `core/observe`. Each has its unit, its meaning and its source."""

    # Arrivals

    set_back_s: int = 300
    """A clock that jumps back by more than this was set back. A smaller difference means that one
    router reports later than another. Chosen by hand."""
    reached_s: int = 30
    """The longest time from the start of a router until the first request that waited for it.
    Chosen by hand."""
    herd_s: int = 5
    """The longest time in which requests arrive that waited for a router to start. Chosen by
    hand."""
    after_herd_s: int = 15
    """The rate of waiting requests is compared with the mean rate of so many seconds after them.
    Chosen by hand."""
    herd_deviations: float = 6.0
    """A second with more requests than the later mean plus so many standard deviations is not
    chance. Chosen by hand."""
    loss_shows_s: float = 30.0
    """The time for which rates lack the requests that a lost router did not report. Rates use about
    so many seconds of arrivals."""

    # Freshness

    fresh_s: float = 35.0
    """The highest age of a fresh sample. It is longer than the slowest usual scrape interval and a
    tick, so that samples do not become stale in normal operation."""
    clock_skew_s: float = 10.0
    """The furthest that a sample may lie in the future, because clocks of two machines differ.
    Chosen by hand."""
    fresh_pod_share: float = 2.0 / 3.0
    """The share of Ready pods that must have fresh samples before a role can grow. Chosen by
    hand."""
    new_pod_s: float = 30.0
    """The time after a pod became Ready for which it may lack a sample: it may be younger than the
    last scrape. Chosen by hand."""

    # Prefix caches

    cached_windows_s: tuple[int, ...] = (30, 10)
    """Recent windows in which the share of cached tokens may have changed, longest first. Tandem
    must see a collapse of cache hits before a whole window has passed. Chosen by hand."""
    caches_move_s: float = 60.0
    """The time after a prefill pod left in which fewer hits say nothing about later ones. Each
    conversation of that pod misses once, and then has a cache on another pod. Chosen by hand."""
    cached_prior_requests: float = 2.0
    """Weight of the overall share of cached tokens beside the requests of one length, in requests.
    Chosen by hand."""
    most_cached_share: float = 0.95
    """The largest share of prompt tokens that caches are expected to serve. Chosen by hand."""

    # Starts of pods

    unmeasured_start_s: float = 60.0
    """The assumed start-up time of a pod before any start was measured. Chosen by hand."""
    longest_start_s: float = 3600.0
    """A time from creation to Ready that is longer than this is not taken for a start-up time.
    Chosen by hand."""
    start_look_slack_s: float = 30.0
    """A pod counts as new if it was created at most so many seconds before the last look. Creation
    times are whole seconds of another machine's clock. Chosen by hand."""
    plausible_start_ratio: float = 3.0
    """At the first look, a start that took so many times as long as the role's fastest one is not
    taken for a start-up time. Chosen by hand."""
    stuck_settle_s: float = 15.0
    """A pod with trouble or without a node counts as stuck after so many seconds. Chosen by
    hand."""
    stuck_margin_ratio: float = 1.5
    """A pod counts as stuck if it takes so many times as long as the slowest start, plus the slack.
    Chosen by hand."""
    stuck_slack_s: float = 30.0
    """The slack: time beyond that margin before a pod counts as stuck. Chosen by hand."""
    stuck_unmeasured_s: float = 600.0
    """Before any start was measured, a pod counts as stuck after so many seconds. Chosen by
    hand."""

    # Changes and chance

    chance_variances: float = 2.0
    """A recent mean differs from the overall mean only if the square of the difference exceeds so
    many variances. Beyond that, the difference counts more and more. Chosen by hand."""

    longest_step_s: float = 30.0
    """The longest time that one tick learns from, even if the last look was longer ago. Chosen by
    hand."""

    rate_window_s: int = 30
    """The present rate of arrivals is the mean over so many seconds. Chosen by hand."""
