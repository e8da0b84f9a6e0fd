"""The numbers that tune the decisions of `core/objective`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectiveTuning:
    """The numbers of `core/objective`. Each has its unit, its meaning and its source."""

    # The error budget.

    budget_window_s: float = 3600.0
    """The window over which the error budget is counted. Chosen by hand."""

    rest_share: float = 0.4
    """Share of the allowed late share that Tandem still plans for when the budget of a window is
    spent. At 0.4 spending settles at seven tenths of the budget. The rest is for events that no
    history shows. Chosen by hand."""

    least_allowed_share: float = 0.1
    """The least share of the allowed late share to plan for, however much was spent. Chosen by
    hand."""

    chance_requests: float = 5.0
    """So many late requests of a young window count as chance: they are added to the allowed
    number. Chosen by hand."""

    least_judged_s: int = 60
    """Time that a fleet must have served before its late requests can prove anything. Chosen by
    hand."""

    short_deviations: float = 3.0
    """A fleet is proven too small by so many standard deviations more late requests than allowed.
    Chance hardly makes so many late. Chosen by hand."""

    least_ample_s: int = 900
    """Time that a fleet must have served before it can be proven larger than needed. Chosen by
    hand."""

    ample_deviations: float = 2.0
    """Standard deviations that are added to the late requests of a fleet that may be larger than
    needed. Chosen by hand."""

    ample_share: float = 0.6
    """A fleet is larger than needed if it surely uses less than this share of the allowed late
    requests. Chosen by hand."""

    burning_s: float = 180.0
    """The recent time whose late requests end the limit of an insurance. Its last minute is not
    over, so two to three minutes count. Chosen by hand."""

    burning_deviations: float = 3.0
    """So many standard deviations more late requests than allowed, and those of chance, end this
    limit. Chosen by hand."""

    min_finished_requests: int = 20
    """A window with fewer ended requests gives no late share. Chosen by hand."""

    # The looks at the insurance.

    looked_every_s: int = 60
    """Time between two looks at the insurance. Chosen by hand."""

    most_converted_ratio: float = 10.0
    """The highest factor by which an edit of an SLO changes the cost of a request, up or down. A
    larger factor means that the cost was measured wrongly. Chosen by hand."""

    usual_looks: int = 15
    """Number of looks over which the mean cost of requests is taken. The cost of one minute varies
    by a third. The number is chosen by hand."""

    # Traffic that is level, and traffic that comes back.

    level_window_s: int = 3600
    """The recent time that must be level, and the time for which a fleet chosen for it stays. An
    insurance that proved too small is also forgotten after this time. Chosen by hand."""

    least_level_s: float = 600.0
    """The least known part of the last hour before traffic can count as level. Chosen by hand."""

    level_dispersion_ratio: float = 2.0
    """The highest variance of level traffic, over that of a Poisson process. Chosen by hand."""

    lately_s: int = 120
    """The recent time whose prompt tokens are compared with earlier ones. Chosen by hand."""

    risen_s: tuple[int, ...] = (20, 60, 180)
    """The recent times in which more requests than usual end the limit of level traffic. Chosen by
    hand."""

    risen_deviations: float = 4.0
    """A rise by so many standard deviations is more than chance. With three, chance changed the
    fleet of one of nine simulated runs of Poisson traffic. Chosen by hand."""

    drift_deviations: float = 4.0
    """A difference of more standard deviations than this is more than chance. Chosen by hand."""

    drift_share: float = 0.05
    """A difference of at most this share is not a drift. Chosen by hand."""

    record_share: float = 0.8
    """A load that is at least this share of the record, in prompt tokens, has reached the record.
    Chosen by hand."""

    dip_share: float = 0.6
    """A load below this share of the record, in prompt tokens, has left the record. Chosen by
    hand."""

    often_times: int = 2
    """A load that came so many times recurs. Chosen by hand."""

    # The most that is held.

    heavier_ratio: float = 1.1
    """If requests cost more than this many times as much, they are not like those of the history.
    Chosen by hand."""

    heavier_if_level_ratio: float = 1.4
    """The same ratio for level traffic, while its requests are no longer than before. The costs of
    a minute differ by chance, and late requests also judge such a fleet. Chosen by hand."""

    longer_ratio: float = 1.1
    """If requests have more than this many times as many tokens, they are longer than those of the
    level traffic. Chosen by hand."""

    # The replay of the past.

    rate_grid_steps: float = 20.0
    """Steps of the grid of rates for a factor of e, so that similar rates are replayed once. Chosen
    by hand."""

    calm_load_ratio: float = 0.3
    """Share of busy replicas below which no request waits. Chosen by hand."""

    full_load_ratio: float = 1.5
    """Load per replica above which only the excess is late. Level traffic needs at least the
    replicas that keep the load at this value. Chosen by hand."""

    easy_load_ratio: float = 0.5
    """Share of busy replicas at which a fleet serves the highest load easily. Floors are tried up
    to one replica more. Chosen by hand."""

    most_floors: int = 16
    """For a large fleet, about so many floors are tried, at even distances. Chosen by hand."""

    peak_deviations: float = 3.0
    """A count that is more standard deviations above the mean, or above the record, is beyond
    chance. Chosen by hand."""

    nobody_share: float = 1e-4
    """A smaller late share than this counts as zero, so more replicas are not tried. Chosen by
    hand."""

    alike_steps: int = 8
    """Lengths that differ by at most so many steps of the grid are alike. Eight steps are a factor
    of one and a half. Chosen by hand."""

    # Surprises.

    missed_share: float = 0.1
    """A surprise makes more than this share of requests late. Chosen by hand."""

    apart_buckets: int = 4
    """Two surprises are at least so many buckets of 20 s apart. Chosen by hand."""

    gross_ratio: float = 5.0
    """A surprise that came once is insured against if it made this many times as many requests late
    as are allowed. Chosen by hand."""

    nearly_steps: int = 4
    """Loads that differ by at most so many steps of the grid are alike. Four steps are a fifth.
    Chosen by hand."""

    surely_below_steps: int = 10
    """A load that is more than so many steps of the grid below a surprise is a calm. Ten steps down
    leave three fifths. Chosen by hand."""

    new_s: int = 900
    """In so many seconds after the start of a pool, a surprise stops counting once the forecast has
    learned it. Chosen by hand."""

    # The choice of an insurance.

    holds_s: tuple[float, ...] = (0.0, 60.0, 180.0, 600.0, 1800.0)
    """The times that are tried for keeping replicas after they were needed. Chosen by hand."""

    half_life_s: float = 3600.0
    """The age at which a part of the history counts half. Bursts that stayed away for so long have
    ended. Chosen by hand."""

    least_history_s: float = 120.0
    """With a shorter history, Tandem chooses no insurance. Chosen by hand."""

    most_price_ratio: float = 10.0
    """The highest price for one late request less, so that small bursts hold no fleet. The unit is
    the GPU time of a request, over the allowed late share. Chosen by hand."""

    loyalty_ratio: float = 0.93
    """The highest cost of another insurance, over that of the insurance in force: each change costs
    a start. Chosen by hand."""

    tolerated_ratio: float = 1.0
    """Late requests of the insurance in force that cost nothing, over the allowed number. Chosen by
    hand."""

    sure_share: float = 0.5
    """Late requests of another insurance that cost nothing, over the allowed number. An insurance
    that is just good enough now may not be so in a minute. Chosen by hand."""

    sure_if_level_share: float = 0.85
    """The same share for level traffic. Late requests judge its fleet, so it can be less sure.
    Chosen by hand."""
