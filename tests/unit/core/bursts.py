"""Builders of demand histories: minutes of traffic and what the forecast alone wanted in them."""

from collections.abc import Sequence
from math import ceil

from tandem_operator.core.objective.choose_insurance import cover_for
from tandem_operator.core.objective.error_budget import Proof
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.observe.demand_history import BUCKET_S, PEAK_S, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Work
from tandem_operator.core.sizing.queueing import queue_late_share
from tandem_operator.core.spec import PoolSpec
from tests.unit.core.scene import NOW_S, make_spec

TOKENS = 1000
# A prefill replica serves five requests a second, a decode replica twenty.
SERVICE_S = {Role.PREFILL: 0.2, Role.DECODE: 0.05}
PATIENCE_S = 0.5


def late_share(role: Role, rate_rps: float, replicas: int) -> float:
    return queue_late_share(
        rate_rps, replicas, service_s=SERVICE_S[role], cv2=0.0, patience_s=PATIENCE_S
    )


WORK = Work(
    busy=SERVICE_S,
    late_share={
        Role.PREFILL: lambda rate, n: late_share(Role.PREFILL, rate, n),
        Role.DECODE: lambda rate, n: late_share(Role.DECODE, rate, n),
    },
    mean_tokens={Role.PREFILL: float(TOKENS), Role.DECODE: 100.0},
    dispersion=1.0,
)

LOW_RPS, HIGH_RPS = 2.0, 20.0
Span = tuple[float, float]


def lulls_and_bursts(times: int, *, lull_s: float = 240.0, burst_s: float = 60.0) -> list[Span]:
    """Return so many lulls, each with a burst after it."""
    return [(LOW_RPS, lull_s), (HIGH_RPS, burst_s)] * times


def lived(spans: Sequence[Span]) -> DemandHistory:
    """Return the history of spans of one rate each; its forecast knows that rate and no more."""
    rates = [rate for rate, span_s in spans for _ in range(round(span_s / BUCKET_S))]
    counts = tuple(round(rate * BUCKET_S) for rate in rates)
    return DemandHistory(
        end_s=int(NOW_S) // BUCKET_S * BUCKET_S,
        requests=counts,
        prompt_tokens=tuple(TOKENS * count for count in counts),
        peaks=tuple(ceil(count * PEAK_S / BUCKET_S) for count in counts),
        wants={
            role: tuple(max(1, ceil(1.3 * rate * SERVICE_S[role])) for rate in rates)
            for role in Role
        },
    )


def covered(
    spans: Sequence[Span],
    *,
    spec: PoolSpec | None = None,
    lead_s: float = 60.0,
    allowed_late: float | None = None,
    before: Cover | None = None,
    work: Work = WORK,
    history: DemandHistory | None = None,
    proof: Proof = Proof.NONE,
    overspent: bool = False,
) -> Cover:
    """Return the insurance for such a history."""
    spec = make_spec(high=12) if spec is None else spec
    return cover_for(
        spec,
        lived(spans) if history is None else history,
        work,
        lead_s=dict.fromkeys(Role, lead_s),
        allowed_late=1.0 - spec.slo.attainment if allowed_late is None else allowed_late,
        before=Cover() if before is None else before,
        proof=proof,
        overspent=overspent,
    )
