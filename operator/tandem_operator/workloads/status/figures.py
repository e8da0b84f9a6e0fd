"""The figures of a status as numbers, beside the strings for people."""

import math

from tandem_operator.api import FiguresStatus
from tandem_operator.core.explain.tick_result import rounded
from tandem_operator.core.role import Role
from tandem_operator.workloads.status.pool_facts import PoolFacts


def figures_of(facts: PoolFacts) -> FiguresStatus | None:
    """Return measured and decided values, in seconds, shares and rates; `None` without any."""
    decision, gpus = facts.decision, facts.gpus_held()
    recent, budget = decision.recent, decision.budget
    prefill, decode = (decision.roles[role] for role in Role)
    goodput = recent.goodput_rps
    measured = {
        "ttft_p50_seconds": recent.ttft.p50_s,
        "ttft_p95_seconds": recent.ttft.p95_s,
        "ttft_p99_seconds": recent.ttft.p99_s,
        "tpot_p50_seconds": recent.tpot.p50_s,
        "tpot_p95_seconds": recent.tpot.p95_s,
        "tpot_p99_seconds": recent.tpot.p99_s,
        "attainment_ratio": recent.attainment,
        "error_budget_remaining_ratio": budget.remaining_share,
        "good_requests_per_second": goodput,
        "good_requests_per_gpu_second": None if goodput is None or not gpus else goodput / gpus,
        "prefill_capacity_requests_per_second": prefill.capacity_rps,
        "decode_capacity_requests_per_second": decode.capacity_rps,
        "prefill_utilization_ratio": prefill.utilization,
        "decode_utilization_ratio": decode.utilization,
        "cost_per_hour": None if facts.cost is None else gpus * facts.cost.price,
    }
    known = {
        name: rounded(value)
        for name, value in measured.items()
        if value is not None and math.isfinite(value)
    }
    return FiguresStatus(gpus=gpus, **known) if known else None
