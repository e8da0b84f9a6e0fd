"""What the decisions of `core/observe` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveTuning:
    """The numbers of `core/observe`. Each says its unit, what it means, and where it is from."""

    # Arrivals

    set_back_s: int = 300
    """A clock that is this far behind was set back. Less is a router that tells later than
    another. Chosen by hand."""
    reached_s: int = 30
    """How soon after its start a router is reached. Chosen by hand."""
    herd_s: int = 5
    """How long those take that waited for a router to start. Chosen by hand."""
    after_herd_s: int = 15
    """What those that waited are compared with: so many seconds after them. Chosen by hand."""
    herd_deviations: float = 6.0
    """How many deviations above the seconds after it no traffic is by chance. Chosen by hand."""
    loss_shows_s: float = 30.0
    """How long the rates lack the requests that a lost router took with it. Rates are taken
    from about so many seconds."""

    # Freshness

    fresh_s: float = 35.0
    """How old a sample may be. Longer than the slowest usual scrape interval and a tick: a sample
    must not go stale by routine."""
    clock_skew_s: float = 10.0
    """How far in the future a sample may be, for the clocks of two machines. Chosen by hand."""
    fresh_pod_share: float = 2.0 / 3.0
    """Growing needs a fresh view of so large a share of the Ready pods. Chosen by hand."""
    new_pod_s: float = 30.0
    """For so many seconds after it became Ready a pod may lack a sample: it may be younger than
    the last scrape. Chosen by hand."""

    # Prefix caches

    cached_windows_s: tuple[int, ...] = (30, 10)
    """Last seconds in which the share of cached tokens may have become another, longest first.
    A collapse of hits must not take a whole window to be seen. Chosen by hand."""
    most_cached_share: float = 0.95
    """The largest share of prompt tokens that caches are expected to serve. Chosen by hand."""

    # Starts of pods

    unmeasured_start_s: float = 60.0
    """How long a start is taken to be while none was measured. Chosen by hand."""
    longest_start_s: float = 3600.0
    """What takes longer from a pod's creation to Ready is no start. Chosen by hand."""
    start_look_slack_s: float = 30.0
    """A pod is new that was created so many seconds before the last look, or later. Creation
    times are whole seconds of another machine's clock. Chosen by hand."""
    plausible_start_ratio: float = 3.0
    """At the first look of all, what took so many times as long as the role's fastest pod is no
    start. Chosen by hand."""
    stuck_settle_s: float = 15.0
    """A pod with trouble or without a node is stuck after so many seconds. Chosen by hand."""
    stuck_margin_ratio: float = 1.5
    """A pod is stuck that takes so many times as long as the slowest start, and the slack.
    Chosen by hand."""
    stuck_slack_s: float = 30.0
    """What is added to the margin on the slowest start before a pod is stuck. Chosen by hand."""
    stuck_unmeasured_s: float = 600.0
    """While no start was measured, a pod is stuck after so many seconds. Chosen by hand."""

    # Changes and chance

    chance_variances: float = 2.0
    """A recent mean is believed as far as the square of its change exceeds so many variances.
    Chosen by hand."""

    longest_step_s: float = 30.0
    """The most time that one tick learns from, however long ago the last look was.

    Chosen by hand.
    """

    rate_window_s: int = 30
    """The last seconds whose mean is the present rate of arrivals. Chosen by hand."""
