"""The numbers that tune the decisions of `core/sizing`."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapreplace


@dataclass(frozen=True, slots=True)
class SizingTuning:
    """The numbers of `core/sizing`. Each has its unit, its meaning and its source."""

    # The recent requests as a stationary sample: `arrival_sample`.

    sample_window_s: int = 180
    """Seconds of arrivals that are replayed. Chosen by hand."""
    rate_half_window_s: int = 15
    """The rate at a second is the mean over so many seconds before and after it. Chosen by hand."""
    length_half_window_s: int = 30
    """The mean prompt at a second is taken over so many seconds before and after it. Chosen by
    hand."""
    length_recent_s: int = 30
    """The whole sample is scaled to the mean prompt of the last so many seconds. Chosen by hand."""
    sample_prior_requests: float = 10.0
    """Weight of the usual mean beside the requests of a short window, in requests. Chosen by
    hand."""
    exact_requests: int = 600
    """The number of latest requests that are replayed one by one. A few entries for each second
    represent all earlier requests. Chosen by hand, for speed."""
    most_entries_per_s: int = 3
    """Entries that represent one of these earlier seconds. Chosen by hand, for speed."""

    # Prefill by replay: `prefill_lateness`.

    ttft_share: float = 0.75
    """Share of the TTFT bound that a request should keep, so that a wait leaves room for chance. If
    its own service takes most of this share, half of the rest counts. Chosen by hand."""
    replay_chunks: int = 180
    """Number of chunks of a sample that is too long to be replayed one by one. Chosen by hand, for
    speed."""
    unseen_on_time_requests: float = 10.0
    """Requests on time that are added to a replay: one late request of a few gives no reliable
    share. Chosen by hand."""
    replay_rates_per_e: float = 20.0
    """Steps of the grid between a rate and e times that rate. So replays use rates in steps of 5 %.
    Chosen by hand, for speed."""
    hopeless_load_ratio: float = 1.15
    """Load above which all requests are late, because the queue grows without end. Chosen by
    hand."""
    served_load_ratio: float = 0.9
    """Highest load of the replicas that serve requests which no replica can serve in time. Chosen
    by hand."""

    # Decode by its batch: `decode_lateness`.

    tpot_share: float = 0.95
    """Share of the TPOT bound up to which the batch is filled. Chosen by hand."""
    kv_share: float = 0.9
    """Share of the KV cache up to which the batch is filled. Chosen by hand."""
    most_lives: float = 8.0
    """The longest time in which a batch settles, in times of one answer. Chosen by hand."""
    infeasible_slack_ratio: float = 1.25
    """If even a single stream does not keep TPOT, the batch is sized for the step of a single
    stream times this ratio. Tandem does not chase a bound that no batch can keep. Chosen by
    hand."""

    # The values of decode for the routers: `decode_speed`.

    same_pace_share: float = 0.03
    """Relative difference up to which the step times and caches sent before stay valid. Many
    readers use them, so not every new digit is sent. Slower and faster count alike, because
    otherwise the worst value by chance would stay. Chosen by hand."""
    same_outputs_share: float = 0.25
    """The same share for output tokens. Chosen by hand."""
    pace_holds_s: float = 10.0
    """Shortest time for which sent values stay valid. Chosen by hand."""

    # Both roles' demand: `demand`.

    decode_price_share: float = 0.05
    """Share of the price of a late request that counts for decode. Most of this price pays for room
    for a jump. A jump makes prompts late within a second, but streams only as their batches fill.
    The ablation (docs/measurements/ablation.md) measures its effect."""
    usable_slack_share: float = 0.5
    """Share of the decode replicas' slack that can serve as prefill. Slack comes in small parts, at
    moments that do not always suit a prompt. A decode replica computes prompts only while all its
    streams keep TPOT. Chosen by hand."""
    calm_load_ratio: float = 0.5
    """Load of each role below which no request queues, so that TTFT shows the overhead. Chosen by
    hand."""
    calm_late_share: float = 0.02
    """Late share of each role below which TTFT shows the overhead. Chosen by hand."""
    overhead_step_share: float = 0.1
    """One look moves the overhead by this share of the unexplained median TTFT. Chosen by hand."""
    most_overhead_step_share: float = 0.02
    """One look moves the overhead by at most this share of the TTFT target. Chosen by hand."""
    most_overhead_share: float = 0.5
    """The overhead is at most this share of the TTFT target. Chosen by hand."""

    # The search for the counts: `replica_counts` and `role_targets`.

    negligible_cost_gpus: float = 1e-3
    """If lateness costs fewer GPUs than this, no more replicas are tried. Chosen by hand."""
    search_past_best_replicas: int = 2
    """Replicas beyond the best so far that are tried. Chosen by hand."""
    budget_search_replicas: int = 64
    """Replicas of a role beyond its minimum up to which pairs are tried. Chosen by hand."""
    hardly_needed_share: float = 0.05
    """A replica is hardly needed if the fleet would not need it with this share less load. Chosen
    by hand; the ablation measures the effect of the wait for such a replica."""

    # The router's order of waiting requests: `prefill_lateness`, `router_credit`.

    deadline_order: bool = True
    """Whether a request that cannot be on time waits behind requests that can. Tandem's router
    always does this. A benchmark of engines alone passes false."""
    next_job: Callable[[list[float], float], object] = heapreplace
    """The rule by which the next request goes to a prefill pod. It is called with the list of times
    at which pods become free, the next one first, and with the time until which that pod will be
    busy. It changes the list in place. In Tandem's router the pod that is free first is next. A
    benchmark of another router passes its own rule. The rule has no effect with
    `deadline_order`."""

    # The margin for a low: `scale_down_margin`.

    least_headroom_share: float = 0.05
    """The least extra load that fewer replicas must be able to serve. Chosen by hand."""
    most_headroom_share: float = 0.5
    """The most extra load that fewer replicas must be able to serve. Chosen by hand."""
    headroom_deviations: float = 3.0
    """The extra load covers so many standard deviations of a rate by chance. An hour holds some
    hundred independent looks at a rate, so three deviations below it are rare. The ablation
    measures its effect."""
    headroom_rate_s: float = 30.0
    """A rate for this purpose is taken over at least so many seconds of arrivals. Chosen by
    hand."""
    headroom_rate_requests: float = 60.0
    """A rate for this purpose is taken over at least so many requests, however long they take.
    Chosen by hand."""
    seen_s: float = 105.0
    """With at least so much history, the unseen past of a pool adds no doubt. A pool counts as idle
    only after so much history too. Chosen by hand; the ablation measures the effect of the
    doubt."""
    early_s: float = 45.0
    """A shorter history that is enough if it covers all traffic that the pool ever had. Chosen by
    hand."""
    early_requests: float = 30.0
    """Requests that such a short history must hold, so that it gives a rate. Chosen by hand."""
