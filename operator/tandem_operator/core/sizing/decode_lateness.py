"""Size decode: the largest batch that keeps TPOT and fits the KV cache, then Little's law.

A replica that runs `batch` streams gives batch / ITL(batch) tokens per second. Its batch follows
the load slowly. It is slower if more of a step depends on the number of streams. Requests are late
if the load exceeds the capacity for about that long.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import erfc, sqrt

from tandem_operator.core.learn.least_squares import Triple
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.tuning.tuning import TUNING, Tuning


class Limit(StrEnum):
    """The limits of the decode batch."""

    TPOT = "TPOT"
    KV = "KV capacity"
    SEQUENCES = "the engine's batch limit"


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """The capacity of one decode replica inside the SLO, for the present mix of requests.

    Attributes:
        batch: largest batch inside every limit.
        tokens_per_s: tokens per second of a replica at that batch.
        settle_s: how slowly the batch follows the load: dN/dt = rate - N / (output x ITL(N)) comes
            back to its balance in output x ITL^2 / fixed step time.
        feasible_tpot_s: the smallest `tpot` target that a single stream keeps.
    """

    steps: Triple
    context_tokens: float
    outputs: Outputs
    dispersion: float
    batch: float
    limit: Limit
    tokens_per_s: float
    settle_s: float
    feasible: bool
    feasible_tpot_s: float

    def load(self, rate_rps: float) -> float:
        """Return the replicas that requests at `rate_rps` keep full."""
        return rate_rps * self.outputs.mean_tokens / self.tokens_per_s

    def deviation(self, rate_rps: float, replicas: int) -> float:
        """Return how far the load of `replicas` varies while their batch settles."""
        seen = max(rate_rps * self.settle_s, 1e-9)
        share = sqrt((self.dispersion + self.outputs.cv2) / seen)
        return self.load(rate_rps) / replicas * share

    def late_share(self, rate_rps: float, replicas: int) -> float:
        """Return the share of requests beyond the capacity of `replicas` inside the SLO."""
        if rate_rps <= 0.0:
            return 0.0
        load = self.load(rate_rps) / replicas
        deviation = self.deviation(rate_rps, replicas)
        return 0.5 * erfc((1.0 - load) / (deviation * sqrt(2.0)))

    def tpot_s(self, rate_rps: float, replicas: int) -> float | None:
        """Return TPOT of `replicas` in balance with `rate_rps`; `None` without a balance."""
        fixed, slope = self.steps[0], self.steps[1] + self.steps[2] * self.context_tokens
        rest = 1.0 - rate_rps * self.outputs.mean_tokens / replicas * slope
        return fixed / rest if rest > 0.0 else None


def decode_work(
    *,
    steps: Triple,
    slowdown: float,
    prompt_tokens: float,
    outputs: Outputs,
    dispersion: float,
    tpot_s: float,
    kv_capacity_tokens: float | None,
    max_num_seqs: int,
    tuning: Tuning = TUNING,
) -> DecodeWork:
    """Return the limits of one replica, with steps `slowdown` times as long as modelled."""
    sizing = tuning.sizing
    d0, d1, d2 = (slowdown * d for d in steps)
    context = max(1.0, prompt_tokens + 0.5 * outputs.mean_tokens)
    slope = d1 + d2 * context
    alone_s = d0 + slope
    feasible = alone_s <= tpot_s
    # Sizing does not chase a bound that no batch can keep: it uses one that a batch can keep.
    kept_s = sizing.tpot_share * tpot_s
    bound_s = kept_s if alone_s <= kept_s else sizing.infeasible_slack_ratio * alone_s
    options = [(float(max(1, max_num_seqs)), Limit.SEQUENCES)]
    if slope > 0.0:
        options.append(((bound_s - d0) / slope, Limit.TPOT))
    if kv_capacity_tokens:
        options.append((sizing.kv_share * kv_capacity_tokens / context, Limit.KV))
    batch, limit = min(options)
    batch = max(1.0, batch)
    step_s = d0 + slope * batch
    lives = min(sizing.most_lives, step_s / max(d0, 1e-9))
    return DecodeWork(
        steps=(d0, d1, d2),
        context_tokens=context,
        outputs=outputs,
        dispersion=dispersion,
        batch=batch,
        limit=limit,
        tokens_per_s=batch / max(step_s, 1e-9),
        settle_s=lives * outputs.mean_tokens * step_s,
        feasible=feasible,
        feasible_tpot_s=alone_s / sizing.tpot_share,
    )
