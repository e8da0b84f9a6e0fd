"""The numbers that tune the decisions of `core/learn`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearnTuning:
    """The numbers of `core/learn`. Each has its unit, its meaning and its source."""

    # First guesses by model and hardware: `roofline` and `shipped_profiles`.

    weights_read_share: float = 0.7
    """Share of a memory's bandwidth at which an engine reads weights.

    Fitted to the estimates and to the measured H200 among the profiles that ship with Tandem.
    """
    cache_read_share: float = 0.95
    """The same share for the KV cache. Fitted likewise."""
    matrices_share: float = 0.85
    """Share of a device's arithmetic that matrix products reach. Fitted likewise."""
    attention_share: float = 0.4
    """Share of a device's 16 bit arithmetic that attention reaches. Fitted likewise."""
    doubling_share: float = 0.85
    """Factor on the shares for weights and matrices for each doubling of devices. Fitted
    likewise."""
    same_shape_share: float = 0.02
    """Two models have the same shape if each number differs by at most this share. So a profile
    also serves for fine-tunes of its model. Chosen by hand."""

    # The laws of one engine: `engine_models`.

    prior_fixed_share: float = 0.15
    """Share of the mean prefill time that does not depend on tokens, if no engine reported one.
    Chosen by hand."""
    prior_token_share: float = 8e-6
    """Time that one cached token adds to a decode step, as a share of a step without cached tokens.
    A step reads the weights once, and the cache of each stream (`roofline`). One token's cache is a
    few millionths of the weights: 8e-6 for Llama 3.1 8B and 2e-6 for 70B in bf16, twice as much in
    fp8."""
    prior_context_tokens: float = 2000.0
    """Assumed cached tokens of a stream until an engine reports how full its cache is. Chosen by
    hand."""
    mean_keep_share: float = 0.98
    """Weight that a mean keeps when one more row comes. The means scale the prior. Chosen by
    hand."""

    # Least squares: `least_squares`.

    shape_keep_share: float = 0.995
    """Weight that the normal equations keep when the rows of one look come. The shape is learned
    slowly, so that rare conditions are not forgotten. Chosen by hand."""
    level_keep_share: float = 0.88
    """Weight that the level keeps when one full row comes. So the level follows a change within a
    dozen rows. Chosen by hand."""
    least_level_ratio: float = 0.02
    """The least level, as a ratio of measurement to shape. Chosen by hand, far from real ones."""
    most_level_ratio: float = 50.0
    """The highest level, as a ratio of measurement to shape. Chosen by hand, far from real ones."""
    prior_rows: tuple[float, float, float] = (0.3, 0.3, 1.0)
    """Weight of the prior of each of the three coefficients, in rows. Chosen by hand."""
    significant_f_ratio: float = 12.0
    """The F ratio from which the third feature gets its own coefficient. The third feature mostly
    changes together with the second, and long contexts would multiply chance in it. Until data
    separate the two beyond doubt, the whole effect belongs to the second. Chosen by hand."""
    error_keep_share: float = 0.8
    """Weight that the recent relative error keeps when one more row comes. Chosen by hand."""
    inherited_rows: float = 3.0
    """Weight of an older revision's shape for a new revision, in rows. It is low, so new rows soon
    outweigh it. Chosen by hand."""
    least_error_share: float = 0.03
    """The least relative error that the gate for outliers assumes. Chosen by hand."""
    gate_errors: float = 4.0
    """A row gets less weight if its error is beyond so many recent relative errors. Chosen by
    hand."""

    # Rows of running totals: `measurements`.

    row_requests: int = 4
    """Requests that close a prefill row. A longer row has fewer edges, where a request is only half
    inside. Chosen by hand."""
    full_row_requests: float = 8.0
    """Requests from which a prefill row has its full weight. Chosen by hand."""
    row_tokens: float = 40.0
    """Tokens that close a decode row. Chosen by hand."""
    full_row_tokens: float = 200.0
    """Tokens from which a decode row has its full weight. Chosen by hand."""
    row_s: float = 15.0
    """Time after which a row closes even with fewer requests or tokens. Chosen by hand."""
    stale_row_s: float = 120.0
    """Time after which an open row starts again and its content is dropped. Otherwise, after a long
    rest, earlier requests would count in the next row. Chosen by hand."""
    fuller_than_full_ratio: float = 1.1
    """Mean streams of a decode row, over the engine's limit, up to which its totals are used. Start
    and end of a row are not read at exactly the same moment, so a full engine may seem a little
    more than full. Chosen by hand."""

    # Lengths of answers: `output_lengths`.

    outputs_window_s: int = 180
    """Ended requests of so many seconds give the variance and the usual mean. Chosen by hand."""
    outputs_recent_s: int = 30
    """Ended requests of so many seconds count most for the mean. Chosen by hand."""
    outputs_prior_requests: float = 10.0
    """Weight of the usual mean beside the recent requests, in requests. Chosen by hand."""
    enough_answers_requests: int = 30
    """Answered requests from which a window replaces the earlier estimate. With fewer answers,
    several looks see the same answers, and each answer counts once. Chosen by hand."""
    most_outputs_cv2: float = 4.0
    """The highest squared coefficient of variation of the lengths, a ratio. Chosen by hand."""
    output_growth_s: int = 60
    """Seconds between the two half minutes that show how fast arrivals grow. Chosen by hand."""
    growth_prior_requests: float = 10.0
    """Requests that are added to both half minutes, so that a few requests do not look like growth.
    Chosen by hand."""
    most_length_correction_share: float = 0.25
    """The most that growth can correct the mean, as a share of it. The correction is of first
    order, and valid only while it is small. The ablation (docs/measurements/ablation.md) measures
    its effect."""

    # Corrections by violations, and the price of lateness: `correction`.

    recent_ended_s: int = 60
    """Violations of requests that ended in so many seconds count as present ones. Chosen by
    hand."""
    longer_ended_s: int = 300
    """Seconds of ended requests over which chance evens out. Chosen by hand."""
    min_finished_requests: int = 20
    """A window with fewer ended requests gives no share. Chosen by hand."""
    settled_s: float = 75.0
    """Recent violations judge a fleet only if it has not changed for so many seconds. This is a
    little more than the window of these violations. Chosen by hand."""
    least_slowdown_ratio: float = 0.8
    """The least factor on the modelled time of a role. Chosen by hand."""
    most_slowdown_ratio: float = 1.6
    """The highest factor on the modelled time of a role. Chosen by hand."""
    slowdown_rate_per_s: float = 0.003
    """Growth of a factor per second, for a late share above the expected one that is as large as
    the allowed share. Chosen by hand; the ablation measures its effect."""
    slowdown_rest_s: float = 900.0
    """Time constant with which a factor returns to 1 by itself. Chosen by hand."""
    first_price_ratio: float = 1.5
    """Factor on the price of a late request in the memory of a new pool. It is cautious at first,
    because measured attainment soon shows whether it is too high. `Correction()` uses the shipped
    value with every tuning."""
    least_price_ratio: float = 0.5
    """The least factor on the price of a late request. Chosen by hand."""
    most_price_ratio: float = 4.0
    """The highest factor on the price of a late request. Chosen by hand."""
    price_rate_per_s: float = 0.001
    """Growth of that factor per second, for an excess of late requests as large as the allowed
    share. Chosen by hand; the ablation measures its effect."""
    burn_fast_ratio: float = 6.0
    """Late share over the allowed share from which violations add replicas at once. Both windows of
    ended requests must exceed it. Chosen by hand."""
    min_blamed_requests: int = 5
    """With fewer violations blamed on a role, they add no replicas. Chosen by hand."""
