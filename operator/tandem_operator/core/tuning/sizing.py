"""What the decisions of `core/sizing` are tuned by."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapreplace


@dataclass(frozen=True, slots=True)
class SizingTuning:
    """The numbers of `core/sizing`. Each says its unit, what it means, and where it is from."""

    # The recent requests as a stationary sample: `arrival_sample`.

    sample_window_s: int = 180
    """Seconds of arrivals that are replayed. Chosen by hand."""
    rate_half_window_s: int = 15
    """Seconds to either side of a second that tell its rate. Chosen by hand."""
    length_half_window_s: int = 30
    """Seconds to either side of a second that tell its mean prompt. Chosen by hand."""
    length_recent_s: int = 30
    """Seconds whose mean prompt the whole sample is carried to. Chosen by hand."""
    sample_prior_requests: float = 10.0
    """Requests of the usual kind that stand beside those of a short window. Chosen by hand."""
    exact_requests: int = 600
    """The latest requests that are placed and replayed one by one.

    Before them, a few entries a second stand for all. Chosen by hand, for time.
    """
    most_entries_per_s: int = 3
    """Entries that stand for one of those earlier seconds. Chosen by hand, for time."""

    # Prefill by replay: `prefill_lateness`.

    ttft_share: float = 0.75
    """Share of the TTFT bound that a request should keep, so that a wait leaves room for chance.

    Where its own service takes most of that, half of what is left counts. Chosen by hand.
    """
    replay_chunks: int = 180
    """Chunks that a sample too long to replay one by one is cut into. Chosen by hand, for time."""
    unseen_on_time_requests: float = 10.0
    """Requests on time that are added to a replay: one late one of a few is no share of all.

    Chosen by hand.
    """
    replay_rates_per_e: float = 20.0
    """Steps between a rate and e times that rate: replays take rates from a grid of 5 %.

    Chosen by hand, for time.
    """
    hopeless_load_ratio: float = 1.15
    """Load above which all are late: the queue grows without end. Chosen by hand."""
    served_load_ratio: float = 0.9
    """Load up to which replicas serve requests that no replica makes good. Chosen by hand."""

    # Decode by its batch: `decode_lateness`.

    tpot_share: float = 0.95
    """Share of the TPOT bound that the batch fills. Chosen by hand."""
    kv_share: float = 0.9
    """Share of the KV cache that the batch fills. Chosen by hand."""
    most_lives: float = 8.0
    """Answers' times that a batch takes at most to settle. Chosen by hand."""
    infeasible_slack_ratio: float = 1.25
    """The bound over a lone stream's step, where not even that one keeps TPOT.

    A bound that no batch can keep is not chased. Chosen by hand.
    """

    # What the routers are told of decode: `decode_speed`.

    same_pace_share: float = 0.03
    """Relative difference up to which what was told of steps and caches still holds.

    It is written down where many read it: not anew for every new digit. Slower and faster count
    alike, or the worst of what is chance would hold. Chosen by hand.
    """
    same_outputs_share: float = 0.25
    """The same for output tokens. Chosen by hand."""
    pace_holds_s: float = 10.0
    """Seconds for which what was told holds in any case. Chosen by hand."""

    # Both roles' demand: `demand`.

    decode_price_share: float = 0.05
    """Share of the price of a late request that counts for decode.

    Most of what the price buys is room for a jump. It makes prompts late within a second, and
    streams only as their batches fill. The ablation (docs/measurements/ablation.md) measures it.
    """
    usable_slack_share: float = 0.5
    """Share of the decode replicas' slack that serves as prefill.

    Slack comes in bits, at moments that do not always suit a prompt. A decode replica computes
    prompts for no more of its time than leaves all its streams their TPOT. Chosen by hand.
    """
    calm_load_ratio: float = 0.5
    """Load of each role below which nothing queues, and TTFT tells of overhead. Chosen by hand."""
    calm_late_share: float = 0.02
    """Late share of each role below which it tells so. Chosen by hand."""
    overhead_step_share: float = 0.1
    """Share of the unexplained median TTFT that one look moves the overhead by. Chosen by hand."""
    most_overhead_step_share: float = 0.02
    """Share of the TTFT target that one look moves the overhead by at most. Chosen by hand."""
    most_overhead_share: float = 0.5
    """Share of the TTFT target that the overhead is at most. Chosen by hand."""

    # The search for the counts: `replica_counts` and `role_targets`.

    negligible_cost_gpus: float = 1e-3
    """Price of lateness in GPUs below which no more replicas are tried. Chosen by hand."""
    search_past_best_replicas: int = 2
    """Replicas beyond the best so far that are tried. Chosen by hand."""
    budget_search_replicas: int = 64
    """Replicas of a role beyond its minimum up to which pairs are tried. Chosen by hand."""
    hardly_needed_share: float = 0.05
    """How much less load asks whether a replica is needed for sure.

    One that so much less load would not need is hardly needed. Chosen by hand; the ablation
    measures what the wait for such a replica is worth.
    """

    # What the router does with requests that wait: `prefill_lateness`, `router_credit`.

    deadline_order: bool = True
    """Whether a request that cannot be on time waits behind those that can.

    Tandem's router always has it so. A benchmark of engines alone passes false.
    """
    next_job: Callable[[list[float], float], object] = heapreplace
    """Which prefill pod takes the next request. Called with the moments at which pods are free,
    the next one first, and the moment until which that one will be busy: it changes the list in
    place. In Tandem's router the pod that is free first is next. A benchmark of another router
    passes its rule. It has no effect where `deadline_order` holds."""

    # How much lower a low must be: `scale_down_margin`.

    least_headroom_share: float = 0.05
    """The least load more that fewer replicas must bear. Chosen by hand."""
    most_headroom_share: float = 0.5
    """The most load more that fewer replicas must bear. Chosen by hand."""
    headroom_deviations: float = 3.0
    """Deviations of a rate by chance that this load covers.

    An hour holds some hundred independent looks at a rate: three deviations below it are rare
    there. The ablation measures what the headroom is worth.
    """
    headroom_rate_s: float = 30.0
    """Seconds of arrivals that a rate is taken from, or more. Chosen by hand."""
    headroom_rate_requests: float = 60.0
    """Requests that a rate is taken from at least, however long they take. Chosen by hand."""
    seen_s: float = 105.0
    """Seconds of history from which what was not seen of a pool's traffic adds no doubt. Chosen
    by hand; the ablation measures what the doubt is worth. A pool counts as idle only after so
    much history too."""
    early_s: float = 45.0
    """Seconds of a shorter history that may do if it is of all the traffic there was.

    Chosen by hand.
    """
    early_requests: float = 30.0
    """Requests that such a history must hold: it must tell a rate. Chosen by hand."""
