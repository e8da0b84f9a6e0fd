"""What the decisions of `core/learn` are tuned by."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearnTuning:
    """The numbers of `core/learn`. Each says its unit, what it means, and where it is from."""

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
    """What each doubling of devices leaves of the shares for weights and matrices.

    Fitted likewise.
    """
    same_shape_share: float = 0.02
    """Relative difference of each number up to which two models have one shape.

    So a profile counts for fine-tunes of its model as well. Chosen by hand.
    """

    # The laws of one engine: `engine_models`.

    prior_fixed_share: float = 0.15
    """Share of the mean prefill time that no token causes, where no engine told. Chosen by hand."""
    prior_token_share: float = 8e-6
    """What one cached token adds to a decode step, as a share of a step without any.

    A step reads the weights once and each stream's cache besides (`roofline`). One token's cache is
    a few millionths of the weights: 8e-6 for Llama 3.1 8B and 2e-6 for 70B in bf16, twice in fp8.
    """
    prior_context_tokens: float = 2000.0
    """Cached tokens of a stream until an engine tells how full its cache is. Chosen by hand."""
    mean_keep_share: float = 0.98
    """Share of a mean that one more row leaves. The means scale the prior. Chosen by hand."""

    # Least squares: `least_squares`.

    shape_keep_share: float = 0.995
    """Share of the normal equations that one look's rows leave.

    The shape is learned slowly, so that rare conditions are not forgotten. Chosen by hand.
    """
    level_keep_share: float = 0.88
    """Share of the level that one full row leaves: it follows a change within a dozen rows.

    Chosen by hand.
    """
    least_level_ratio: float = 0.02
    """The least level, as a ratio of measurement to shape. Chosen by hand, far from real ones."""
    most_level_ratio: float = 50.0
    """The highest level, as a ratio of measurement to shape. Chosen by hand, far from real ones."""
    prior_rows: tuple[float, float, float] = (0.3, 0.3, 1.0)
    """How many rows the prior of each of the three coefficients is worth. Chosen by hand."""
    significant_f_ratio: float = 12.0
    """The F ratio from which the third feature gets a coefficient of its own.

    It mostly moves with the second, and long contexts would multiply chance in it. Until data tell
    them apart beyond doubt, the effect belongs to the second alone. Chosen by hand.
    """
    error_keep_share: float = 0.8
    """Share of the recent relative error that one more row leaves. Chosen by hand."""
    inherited_rows: float = 3.0
    """Rows that an older revision's shape is worth for a new one: few, soon outvoted.

    Chosen by hand.
    """
    least_error_share: float = 0.03
    """The least relative error that the gate for outliers assumes. Chosen by hand."""
    gate_errors: float = 4.0
    """Recent relative errors beyond which a row is held back. Chosen by hand."""

    # Rows of running totals: `measurements`.

    row_requests: int = 4
    """Requests that close a prefill row.

    Longer rows have fewer edges, at which a request is half inside. Chosen by hand.
    """
    full_row_requests: float = 8.0
    """Requests from which a prefill row has its full weight. Chosen by hand."""
    row_tokens: float = 40.0
    """Tokens that close a decode row. Chosen by hand."""
    full_row_tokens: float = 200.0
    """Tokens from which a decode row has its full weight. Chosen by hand."""
    row_s: float = 15.0
    """Seconds that close a row with fewer requests or tokens than these. Chosen by hand."""
    stale_row_s: float = 120.0
    """Seconds after which an open row begins anew and teaches nothing.

    After a long rest, requests of before would smear into the next row. Chosen by hand.
    """
    fuller_than_full_ratio: float = 1.1
    """Streams of a decode row over the engine's limit up to which its totals are believed.

    The ends of a row are read a moment apart: a full engine may seem a little more than full.
    Chosen by hand.
    """

    # Lengths of answers: `output_lengths`.

    outputs_window_s: int = 180
    """Seconds of ended requests that tell the variance and the usual mean. Chosen by hand."""
    outputs_recent_s: int = 30
    """Seconds of ended requests that count most for the mean. Chosen by hand."""
    outputs_prior_requests: float = 10.0
    """Requests of the usual mean that stand beside the recent ones. Chosen by hand."""
    enough_answers_requests: int = 30
    """Answered requests from which a window replaces what was known before.

    A few answers are seen again at each look, and each counts once. Chosen by hand.
    """
    most_outputs_cv2: float = 4.0
    """The highest squared coefficient of variation of the lengths, a ratio. Chosen by hand."""
    output_growth_s: int = 60
    """Seconds between the two half minutes that tell how fast arrivals grow. Chosen by hand."""
    growth_prior_requests: float = 10.0
    """Requests that are added to both half minutes: a handful of them is no growth.

    Chosen by hand.
    """
    most_length_correction_share: float = 0.25
    """Share of the mean by which growth corrects it at most.

    The correction is of first order, and that ends where it is no longer small. The ablation
    (docs/measurements/ablation.md) measures what the correction is worth.
    """

    # Corrections by violations, and the price of lateness: `correction`.

    recent_ended_s: int = 60
    """Seconds of ended requests whose violations count as those of now. Chosen by hand."""
    longer_ended_s: int = 300
    """Seconds of ended requests that are long enough for chance to even out. Chosen by hand."""
    min_finished_requests: int = 20
    """Ended requests below which a window tells no share. Chosen by hand."""
    settled_s: float = 75.0
    """Seconds that a fleet has been as it is before recent violations judge it.

    It is a little more than the window of those violations. Chosen by hand.
    """
    least_slowdown_ratio: float = 0.8
    """The least factor on a role's time by the model. Chosen by hand."""
    most_slowdown_ratio: float = 1.6
    """The highest factor on a role's time by the model. Chosen by hand."""
    slowdown_rate_per_s: float = 0.003
    """Growth of a factor per second and per allowed late share that nobody expected.

    Chosen by hand; the ablation measures what it is worth.
    """
    slowdown_rest_s: float = 900.0
    """Seconds in which a factor comes back to 1 by itself, as a time constant. Chosen by hand."""
    first_price_ratio: float = 1.5
    """Factor on the price of a late request in a new pool's memory.

    It is careful at first: measured attainment soon says whether that was too much. `Correction()`
    takes what ships, whatever tuning a decision is given.
    """
    least_price_ratio: float = 0.5
    """The least factor on the price of a late request. Chosen by hand."""
    most_price_ratio: float = 4.0
    """The highest factor on the price of a late request. Chosen by hand."""
    price_rate_per_s: float = 0.001
    """Growth of that factor per second and per allowed late share too many.

    Chosen by hand; the ablation measures what it is worth.
    """
    burn_fast_ratio: float = 6.0
    """Late share over the allowed one beyond which violations demand replicas at once.

    Both windows of ended requests must exceed it. Chosen by hand.
    """
    min_blamed_requests: int = 5
    """Violations blamed on a role below which they demand nothing. Chosen by hand."""
