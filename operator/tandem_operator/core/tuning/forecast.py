"""What the decisions of `core/forecast` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForecastTuning:
    """The numbers of `core/forecast`. Each says its unit, what it means, and where it is from."""

    # The mixture of the experts

    look_ahead_s: float = 60.0
    """How far beyond the start-up time the forecast looks. Chosen by hand. A backlog has as
    long, after a start, to be served."""
    near_s: float = 16.0
    """The horizon of the predictions of soon: up to it their errors hold, beyond it those over a
    start-up time blend in. Chosen by hand."""
    min_history_s: int = 20
    """With a shorter history there is no forecast. Chosen by hand."""
    belief_sharpness: float = 8.0
    """How fast an expert loses belief: by a factor e for each eighth that its loss is above the
    least. Chosen by hand."""
    scores_to_trust: float = 20.0
    """So many scores of the average of all experts each starts with: the luckiest of few scores is
    not the best. Chosen by hand."""
    season_caution_ratio: float = 1.5
    """How many times its own error on the past a season is expected to lose at first. Chosen by
    hand."""
    most_growth_ratio: float = 1.6
    """No trend leads above so many times what was just seen: a jump is no trend. Chosen by hand."""

    # The errors of the mixture, in units of the root of the rate times the mean rate

    error_memory_s: float = 400.0
    """Time constant with which past errors fade. Chosen by hand."""
    error_scale_ratio: float = 0.78
    """What the spread of the samples is multiplied by. Chosen by hand."""
    error_samples: int = 5
    """How many equally likely rates stand for a horizon's spread. Chosen by hand."""
    first_error: float = 0.2
    """The deviation that is taken for granted before any prediction came due. Chosen by hand.
    In roots of the rate times the mean rate."""
    least_error: float = 0.1
    """The deviation that stays taken for granted however many came due. Chosen by hand. In
    roots of the rate times the mean rate."""
    error_prior_predictions: float = 10.0
    """The doubt at first weighs as much as so many predictions that came due. Chosen by hand."""
    most_error: float = 0.6
    """No single error counts for more. A step is rare, and no news once it is there: it may
    widen the margin, not double it. Chosen by hand. In roots of the rate times the mean rate."""

    # Jumps, and traffic that is new

    jump_news_s: int = 15
    """For so many seconds a jump upwards is news, and growth waits for no second look. Chosen by
    hand."""
    young_s: float = 150.0
    """Traffic that is known for less is young: two minutes of a pool do not tell how far its
    traffic climbs. Chosen by hand."""
    grown_s: float = 240.0
    """Traffic that is known for so long gets no more room. Between young and grown the room
    shrinks. Chosen by hand."""
    young_room_share: float = 0.5
    """What young traffic that climbs clearly gets on top, as a share of the forecast. Chosen by
    hand."""
    no_growth_share: float = 0.1
    """A forecast growth up to this share of the present rate is no climb. Chosen by hand."""
    clear_growth_share: float = 0.5
    """A forecast growth from this share of the present rate on is a clear climb. Chosen by hand."""

    # The risk of a forecast

    least_risk_rate_rps: float = 0.1
    """A lower mean rate counts as this one where the risk is taken as a share of it. Chosen by
    hand."""
    proven_risk_share: float = 0.15
    """Where a smaller share of the rate is at risk, a replica need not be ready a minute before it
    is needed. Chosen by hand."""

    # Scores of predictions that came due

    score_window_s: int = 10
    """The rate that came is counted over so many seconds. Chosen by hand."""
    pinball_share: float = 0.7
    """The quantile whose pinball loss scores the experts: above a half, too low costs more than
    too high. Chosen by hand."""
    loss_memory_s: float = 300.0
    """Time constant with which an expert's losses fade. Chosen by hand."""
    jump_miss_weight: float = 0.25
    """How much a miss counts where the level jumped in between, next to one of another. It tells
    of the jump, and little of what is to come. Chosen by hand."""

    # Sudden changes of level

    step_windows_s: tuple[int, ...] = (90, 180)
    """Histories that are searched for a step, in this order. Chosen by hand."""
    step_least_history_s: int = 60
    """A shorter history is not searched for a step. Chosen by hand."""
    step_least_age_s: int = 4
    """A step shows after so many seconds at the new level. Chosen by hand."""
    step_certain_ratio: float = 25.0
    """A step must explain so many times the variance of a second's chance. Chosen by hand."""
    step_least_excess_requests: float = 12.0
    """A step must bring so many requests more or less: a few close together after long silence
    are no new level. Chosen by hand."""

    # Means and lines

    mean_longest_s: int = 180
    """A mean of few requests looks back no further. Chosen by hand."""
    slope_doubt_variances: float = 6.0
    """Half of a slope is believed whose square is so many times the variance that chance gives it.
    Chosen by hand."""
    damping_s: float = 90.0
    """Time constant with which a slope that is carried on fades. Chosen by hand."""

    # Seasons of minutes: sines

    season_memory_s: float = 600.0
    """Time constant with which the bins of the past lose weight in the fit. Chosen by hand."""
    season_ridge_s: float = 20.0
    """How far a wave is held back, as so many seconds without one. Chosen by hand."""
    season_ridge_requests: float = 400.0
    """A wave is held back by no more seconds than bring so many requests: the more requests
    there are, the less it needs that. Chosen by hand. It bounds the period between those of the
    grid alone."""
    season_residual_memory_s: float = 60.0
    """Time constant with which what is above or below a season now fades. Chosen by hand."""
    season_step_news_s: int = 120
    """For so many seconds a step is taken to stay, on top of the season. Chosen by hand."""
    season_shortest_period_s: float = 180.0
    """The shortest period that is tried. Chosen by hand."""
    season_period_ratio: float = 1.0425
    """The ratio of a period that is tried to the one before. Chosen by hand."""
    season_periods: int = 48
    """How many periods are tried. Chosen by hand."""
    season_reach_ratio: float = 1.5
    """Periods up to so many times what was seen are tried. A period of which two thirds were
    seen may be the true one, where a shorter one shows a season. Chosen by hand."""
    season_least_amplitude_share: float = 0.25
    """A season's amplitude is at least this share of the mean rate. Chosen by hand."""
    season_most_error_ratio: float = 2.0
    """A season leaves at most so many times what chance alone would. Chosen by hand."""
    season_misfit_share: float = 0.15
    """A season may leave this share of its amplitude: no traffic is a sine to within the chance
    of thousands of requests. Chosen by hand."""
    season_explained_share: float = 0.8
    """A season has to explain four bins of five: a burst now and then does not end it. Chosen
    by hand."""
    season_explained_deviations: float = 1.28
    """The share of bins above stays within so many deviations where errors are normal: the two
    change together."""
    season_most_deviations: float = 2.5
    """What stands out of the fit by more deviations is held back: single bursts belong to no
    season. Chosen by hand."""

    # Seasons of hours: what followed one period ago

    repeat_least_period_s: int = 300
    """The shortest period that is looked for. Chosen by hand."""
    repeat_least_overlap_s: int = 300
    """So much of a second period must be there, whatever its length. Chosen by hand."""
    repeat_least_second_share: float = 0.25
    """This share of a second period must be there. Chosen by hand."""
    repeat_least_varied_share: float = 0.6
    """Of all that traffic varies, this share must lie in what is compared: a calm is like any
    other calm. Chosen by hand."""
    repeat_most_unknown_share: float = 0.05
    """With a larger share of holes the history is not used. Chosen by hand."""
    repeat_latest_buckets: int = 3
    """What is above or below the last period now is the mean of so many buckets. Chosen by
    hand."""
