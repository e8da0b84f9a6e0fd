"""What the decisions of `core/objective` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectiveTuning:
    """The numbers of `core/objective`. Each says its unit, what it means, and where it is from."""

    # The error budget.

    budget_window_s: float = 3600.0
    """The window that the error budget is kept in. Chosen by hand."""

    rest_share: float = 0.4
    """How much of the allowed late share stays to plan for once a window's budget is spent. At
    0.4 spending settles where seven tenths are spent. The rest is for what no history shows.
    Chosen by hand."""

    least_allowed_share: float = 0.1
    """The least of the allowed late share to plan for, however much was spent. Chosen by hand."""

    chance_requests: float = 5.0
    """So many late requests of a young window are chance: they are added to what is allowed.

    Chosen by hand.
    """

    least_judged_s: int = 60
    """How long a fleet must have served before its late requests prove anything. Chosen by hand."""

    short_deviations: float = 3.0
    """So many standard deviations more late requests than allowed prove a fleet short. Chance
    would hardly make so many late. Chosen by hand."""

    least_ample_s: int = 900
    """How long a fleet must have served before it may prove ample. Chosen by hand."""

    ample_deviations: float = 2.0
    """Standard deviations that are added to the late requests of a fleet that may be ample.

    Chosen by hand.
    """

    ample_share: float = 0.6
    """An ample fleet surely uses less than this part of the late requests that are allowed.

    Chosen by hand.
    """

    min_finished_requests: int = 20
    """A window with fewer requests that ended tells no late share. Chosen by hand."""

    # The looks at the insurance.

    looked_every_s: int = 60
    """How often the insurance is looked into. Chosen by hand."""

    most_converted_ratio: float = 10.0
    """The most times that an edit of an SLO makes a request as dear, or as cheap. No edit does
    more: such a cost was measured wrongly. Chosen by hand."""

    usual_looks: int = 15
    """How many looks the mean of what requests cost is taken over.

    The cost of one minute swings by a third. The number is chosen by hand.
    """

    # Traffic that is level, and traffic that comes back.

    level_window_s: int = 3600
    """The last time that must be level, and how long a fleet chosen for it stays.

    An insurance that proved short is forgotten after it too. Chosen by hand.
    """

    least_level_s: float = 600.0
    """How much must be known of the last hour before it counts as level. Chosen by hand."""

    level_dispersion_ratio: float = 2.0
    """The variance of level traffic, over that of a Poisson process, is no more than this.

    Chosen by hand.
    """

    lately_s: int = 120
    """The last time whose prompt tokens are compared with those of before. Chosen by hand."""

    drift_deviations: float = 4.0
    """What differs from before by more standard deviations than this differs by more than chance.

    Chosen by hand.
    """

    drift_share: float = 0.05
    """What differs from before by no more than this part has not drifted. Chosen by hand."""

    record_share: float = 0.8
    """A load of this part of the record, in prompt tokens, has reached it. Chosen by hand."""

    dip_share: float = 0.6
    """A load below this part of the record, in prompt tokens, has left it. Chosen by hand."""

    often_times: int = 2
    """What came so many times comes back. Chosen by hand."""

    # The most that is held.

    heavier_ratio: float = 1.1
    """Requests that cost more times as much are no longer those of the history.

    Chosen by hand.
    """

    heavier_if_level_ratio: float = 1.4
    """The same for level traffic, while its requests are no longer than they were. The costs of
    a minute differ by chance, and late requests judge such a fleet too. Chosen by hand."""

    longer_ratio: float = 1.1
    """Requests of more times as many tokens are longer than those of level traffic were.

    Chosen by hand.
    """

    # The play of the past.

    rate_grid_steps: float = 20.0
    """Steps of the grid of rates for a factor of e, so that alike rates are replayed once.

    Chosen by hand.
    """

    calm_load_ratio: float = 0.3
    """Busy replicas over all, below which no request waits. Chosen by hand."""

    full_load_ratio: float = 1.5
    """Busy replicas over all, above which only the excess is late.

    Level traffic needs no fewer replicas than reach this load. Chosen by hand.
    """

    easy_load_ratio: float = 0.5
    """Busy replicas over all at which a fleet carries the highest load with ease.

    Floors are tried up to one replica more. Chosen by hand.
    """

    most_floors: int = 16
    """About so many floors are tried of a large fleet, at even distances. Chosen by hand."""

    peak_deviations: float = 3.0
    """A count that is more standard deviations above the mean, or the record, is beyond chance.

    Chosen by hand.
    """

    nobody_share: float = 1e-4
    """Where this share is late no request is: more replicas are not tried. Chosen by hand."""

    alike_steps: int = 8
    """Lengths that are no more steps of the grid apart are alike. Eight steps are half as much
    again. Chosen by hand."""

    # Surprises.

    missed_share: float = 0.1
    """A surprise makes more than this share of requests late. Chosen by hand."""

    apart_buckets: int = 4
    """A surprise is at least so many buckets of 20 s from the one before. Chosen by hand."""

    gross_ratio: float = 5.0
    """What came once is insured too if it made more times as many requests late as are allowed.

    Chosen by hand.
    """

    nearly_steps: int = 4
    """Loads that are no more steps of the grid apart are alike. Four steps are a fifth. Chosen
    by hand."""

    surely_below_steps: int = 10
    """A load that is more steps of the grid below a surprise is a calm. Ten steps down leave
    three fifths. Chosen by hand."""

    new_s: int = 900
    """In the first time of a pool, a surprise that the forecast has learned since is none.

    Chosen by hand.
    """

    # The choice of an insurance.

    holds_s: tuple[float, ...] = (0.0, 60.0, 180.0, 600.0, 1800.0)
    """The times that are tried for keeping what was once needed. Chosen by hand."""

    half_life_s: float = 3600.0
    """The age at which a part of the history counts half.

    Bursts that stayed away for so long have ended. Chosen by hand.
    """

    least_history_s: float = 120.0
    """A history that is shorter chooses no insurance. Chosen by hand."""

    most_price_ratio: float = 10.0
    """The most that is paid to have one request less late, so that small bursts hold no fleet.
    The unit is the GPU time of a request, over the share that may be late. Chosen by hand."""

    loyalty_ratio: float = 0.93
    """What another insurance may cost at most, over the one in force: each change costs a start.

    Chosen by hand.
    """

    tolerated_ratio: float = 1.0
    """Late requests of the insurance in force that cost nothing, over what is allowed.

    Chosen by hand.
    """

    sure_share: float = 0.5
    """Late requests of another insurance that cost nothing, over what is allowed. What just
    passes now may not pass in a minute. Chosen by hand."""

    sure_if_level_share: float = 0.85
    """The same for level traffic. Late requests judge its fleet, so it need not be that sure.
    Chosen by hand."""
