"""The numbers that tune the decisions of `core/forecast`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForecastTuning:
    """The numbers of `core/forecast`. Each has its unit, its meaning and its source."""

    # The mixture of the experts

    look_ahead_s: float = 60.0
    """Time beyond the start-up time that the forecast covers. A backlog has as long, after a start,
    to be served. Chosen by hand."""
    near_s: float = 16.0
    """The short horizon. Up to it, the errors of short predictions count. Beyond it, errors over a
    start-up time blend in. Chosen by hand."""
    min_history_s: int = 20
    """With less history than this there is no forecast. Chosen by hand."""
    belief_sharpness: float = 8.0
    """Speed at which an expert loses weight: by a factor of e for each eighth that its loss is
    above the least loss. Chosen by hand."""
    scores_to_trust: float = 20.0
    """Each expert starts with so many scores at the average of all experts. With few scores, the
    best one may only be lucky. Chosen by hand."""
    season_caution_ratio: float = 1.5
    """The expected loss of a season at first, over its own error on the past. Chosen by hand."""
    most_growth_ratio: float = 1.6
    """The highest rate that a trend can predict, over the rate just seen: a jump is not a trend.
    Chosen by hand."""

    # The errors of the mixture, in units of the root of the rate times the mean rate

    error_memory_s: float = 400.0
    """Time constant with which past errors fade. Chosen by hand."""
    error_scale_ratio: float = 0.78
    """Factor on the spread of the samples. Chosen by hand."""
    error_samples: int = 5
    """Number of equally likely rates that represent the spread at one horizon. Chosen by hand."""
    first_error: float = 0.2
    """The assumed standard deviation before any prediction can be compared, in roots of the rate
    times the mean rate. Chosen by hand."""
    least_error: float = 0.1
    """The assumed standard deviation that always stays, in roots of the rate times the mean rate.
    Chosen by hand."""
    error_prior_predictions: float = 10.0
    """Weight of the first assumption, in predictions that were compared. Chosen by hand."""
    most_error: float = 0.6
    """The most that a single error counts. A step is rare, and it is known once it has come: it may
    widen the margin, but not double it. In roots of the rate times the mean rate. Chosen by
    hand."""

    # Jumps, and traffic that is new

    jump_news_s: int = 15
    """For so many seconds after a jump upwards, growth needs no second look. Chosen by hand."""
    young_s: float = 150.0
    """Traffic that is known for a shorter time is young: two minutes do not show how far the
    traffic of a pool climbs. Chosen by hand."""
    grown_s: float = 240.0
    """Traffic that is known for longer gets no extra room. Between young and grown the extra room
    shrinks. Chosen by hand."""
    young_room_share: float = 0.5
    """The extra room for young traffic that climbs clearly, as a share of the forecast. Chosen by
    hand."""
    no_growth_share: float = 0.1
    """A predicted growth of at most this share of the present rate is not a climb. Chosen by
    hand."""
    clear_growth_share: float = 0.5
    """A predicted growth of at least this share of the present rate is a clear climb. Chosen by
    hand."""

    # The risk of a forecast

    least_risk_rate_rps: float = 0.1
    """The least mean rate by which a risk is divided to make it a share. Chosen by hand."""
    proven_risk_share: float = 0.15
    """If a smaller share of the rate is at risk, a replica need not be ready a minute before it is
    needed. Chosen by hand."""

    # Scores of predictions that came due

    score_window_s: int = 10
    """The real rate is counted over so many seconds before it is compared. Chosen by hand."""
    pinball_share: float = 0.7
    """The quantile whose pinball loss scores the experts. Above a half, a prediction that is too
    low costs more than one that is too high. Chosen by hand."""
    loss_memory_s: float = 300.0
    """Time constant with which an expert's losses fade. Chosen by hand."""
    jump_miss_weight: float = 0.25
    """Weight of an error if the level jumped in between, over that of other errors. Such an error
    shows the jump, and says little about the future. Chosen by hand."""

    # Sudden changes of level

    step_windows_s: tuple[int, ...] = (90, 180)
    """Lengths of history that are searched for a step, in this order. Chosen by hand."""
    step_least_history_s: int = 60
    """A shorter history is not searched for a step. Chosen by hand."""
    step_least_age_s: int = 4
    """Seconds at the new level after which a step can be found. Chosen by hand."""
    step_certain_ratio: float = 25.0
    """A step must explain so many times the chance variance of one second. Chosen by hand."""
    step_least_excess_requests: float = 12.0
    """A step must bring so many requests more or less: a few requests close together after a long
    silence are not a new level. Chosen by hand."""

    # Means and lines

    mean_longest_s: int = 180
    """The longest history of a mean over few requests. Chosen by hand."""
    slope_doubt_variances: float = 6.0
    """Half of a slope counts if its square is so many times its chance variance. Chosen by hand."""
    damping_s: float = 90.0
    """Time constant with which an extrapolated slope fades. Chosen by hand."""

    # Seasons of minutes: sines

    season_memory_s: float = 600.0
    """Time constant with which the bins of the past lose weight in the fit. Chosen by hand."""
    season_ridge_s: float = 20.0
    """Damping of a fitted wave, as so many seconds without a wave. Chosen by hand."""
    season_ridge_requests: float = 400.0
    """The damping lasts no more seconds than bring so many requests: with more requests, a fit
    needs less damping. It also limits the search for a period between those of the grid. Chosen by
    hand."""
    season_residual_memory_s: float = 60.0
    """Time constant with which the present difference from a season fades. Chosen by hand."""
    season_step_news_s: int = 120
    """After a step, the forecast adds it to the season for so many seconds. Chosen by hand."""
    season_shortest_period_s: float = 180.0
    """The shortest period that is tried. Chosen by hand."""
    season_period_ratio: float = 1.0425
    """Ratio of each tried period to the one before. Chosen by hand."""
    season_periods: int = 48
    """Number of periods that are tried. Chosen by hand."""
    season_reach_ratio: float = 1.5
    """The longest period that is tried, over the length of the known history. If two thirds of a
    period were seen, it may be the true one although a shorter one fits too. Chosen by hand."""
    season_least_amplitude_share: float = 0.25
    """The least amplitude of a season, as a share of the mean rate. Chosen by hand."""
    season_most_error_ratio: float = 2.0
    """The highest error of a season, over the error by chance alone. Chosen by hand."""
    season_misfit_share: float = 0.15
    """A season may leave an error of this share of its amplitude: real traffic is never so exactly
    a sine that only the chance of thousands of requests is left. Chosen by hand."""
    season_explained_share: float = 0.8
    """The share of bins that a season must explain: a rare burst does not end it. Chosen by
    hand."""
    season_explained_deviations: float = 1.28
    """The number of standard deviations that holds this share of bins if errors are normal. The two
    numbers change together."""
    season_most_deviations: float = 2.5
    """A bin counts only up to so many standard deviations from the fit: single bursts belong to no
    season. Chosen by hand."""

    # Seasons of hours: the traffic one period ago

    repeat_least_period_s: int = 300
    """The shortest period that the search for repeats tries. Chosen by hand."""
    repeat_least_overlap_s: int = 300
    """The least known part of a second period, whatever its length. Chosen by hand."""
    repeat_least_second_share: float = 0.25
    """The least known share of a second period. Chosen by hand."""
    repeat_least_varied_share: float = 0.6
    """The compared part must contain this share of the whole range of the traffic, because two calm
    phases are always alike. Chosen by hand."""
    repeat_most_unknown_share: float = 0.05
    """A history with a larger share of holes is not used. Chosen by hand."""
    repeat_latest_buckets: int = 3
    """The present difference from the last period is the mean over so many buckets. Chosen by
    hand."""

    # Climbs

    climb_window_s: int = 300
    """The recent time in which a climb may have begun. Chosen by hand."""
    climb_bin_s: int = 5
    """Requests of so many seconds are counted together. Chosen by hand."""
    climb_least_bins: int = 6
    """A climb must have lasted for so many bins. Chosen by hand."""
    climb_certain_variances: float = 16.0
    """A climb is certain if it explains so many times the chance variance of one bin. The more it
    explains beyond this, the less the experts without a climb count. Chosen by hand."""
