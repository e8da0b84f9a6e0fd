"""The core's input from metric samples of any source. Pure.

The names are those of vLLM 0.32 and of Tandem's router. A sample that is negative or not finite is
invalid.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tandem_contracts.names import TPOT_METRIC, TTFT_METRIC
from tandem_operator.core.observation import EngineSample, Quantiles
from tandem_operator.core.role import Role

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"
CACHE_CONFIG = "vllm:cache_config_info"
ITL = "vllm:inter_token_latency_seconds"
ITL_SUM, ITL_COUNT = f"{ITL}_sum", f"{ITL}_count"
GENERATED = "vllm:generation_tokens_total"
TRANSFER = "vllm:nixl_xfer_time_seconds"
TRANSFER_SUM, TRANSFER_COUNT = f"{TRANSFER}_sum", f"{TRANSFER}_count"
ENGINE_METRICS = (
    RUNNING,
    WAITING,
    KV_USAGE,
    CACHE_CONFIG,
    ITL_SUM,
    ITL_COUNT,
    GENERATED,
    TRANSFER_SUM,
    TRANSFER_COUNT,
)
TTFT_BUCKET, TPOT_BUCKET = f"{TTFT_METRIC}_bucket", f"{TPOT_METRIC}_bucket"
ROUTER_METRICS = (TTFT_BUCKET, TPOT_BUCKET)

MOST_EDGES = 256
"""Most edges of a histogram; those of a router have about a hundred."""

Buckets = Mapping[float, float]
"""Upper edge -> requests at or below it, as Prometheus histograms count."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a metrics page or one element of a query's answer."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_page(text: str, *, wanted: Sequence[str]) -> list[Sample]:
    """Return the wanted samples of a metrics page. Raises `ValueError` for any other text.

    Only wanted lines reach the parser: an engine's page has thousands, and nine are needed.
    """
    prefixes = tuple(f"{name}{end}" for name in wanted for end in ("{", " "))
    lines = [line for line in text.splitlines() if line.startswith(prefixes)]
    return [
        Sample(name=each.name, labels=each.labels, value=each.value)
        for family in text_string_to_metric_families("\n".join(lines) + "\n")
        for each in family.samples
    ]


def engine_sample(
    samples: Iterable[Sample], *, pod: str, role: Role, sampled_s: float
) -> EngineSample | None:
    """Return one pod's sample, over all its engine ranks; `None` if its load is not known.

    A rank counts once, with its first sample, however many scrapes collected it.
    """
    values: dict[str, dict[str, float]] = {}
    capacities: dict[str, float | None] = {}
    for sample in samples:
        rank = rank_of(sample.labels)
        if sample.name == CACHE_CONFIG:
            capacities.setdefault(rank, _capacity_tokens(sample.labels))
        elif math.isfinite(sample.value) and sample.value >= 0:
            values.setdefault(sample.name, {}).setdefault(rank, sample.value)
    if RUNNING not in values or WAITING not in values:
        return None

    def total(name: str) -> float | None:
        return sum(values[name].values()) if name in values else None

    known = [each for each in capacities.values() if each is not None]
    usage = values.get(KV_USAGE)
    return EngineSample(
        pod=pod,
        role=role,
        sampled_s=sampled_s,
        running=sum(values[RUNNING].values()),
        waiting=sum(values[WAITING].values()),
        kv_usage_ratio=sum(usage.values()) / len(usage) if usage else None,
        kv_capacity_tokens=sum(known) if known and len(known) == len(capacities) else None,
        itl_sum_s=total(ITL_SUM),
        itl_count=total(ITL_COUNT),
        generation_tokens_total=total(GENERATED),
        transfer_sum_s=total(TRANSFER_SUM),
        transfer_count=total(TRANSFER_COUNT),
    )


def rank_of(labels: Mapping[str, str]) -> str:
    """Return the engine rank within its pod.

    If a scrape has a target label `engine`, the server keeps vLLM's label as `exported_engine`.
    """
    return labels.get("exported_engine", labels.get("engine", ""))


def _capacity_tokens(labels: Mapping[str, str]) -> float | None:
    try:
        tokens = float(labels["num_gpu_blocks"]) * float(labels["block_size"])
    except (KeyError, ValueError):
        return None
    return tokens if math.isfinite(tokens) and tokens > 0 else None


def buckets_of(samples: Iterable[Sample], name: str) -> dict[float, float] | None:
    """Return the histogram called `name`; `None` if it is absent or invalid."""
    found: dict[float, float] = {}
    for sample in samples:
        if sample.name != name or "le" not in sample.labels:
            continue
        if not math.isfinite(sample.value) or sample.value < 0:
            return None
        edge = float(sample.labels["le"])
        found[edge] = found.get(edge, 0.0) + sample.value
        if len(found) > MOST_EDGES:
            return None
    return found or None


def added(before: Buckets, after: Buckets) -> dict[float, float] | None:
    """Return the growth of a histogram between two readings; `None` after a reset."""
    if before.keys() != after.keys():
        return None
    gained = {edge: after[edge] - before[edge] for edge in after}
    return None if min(gained.values()) < 0 else gained


def quantiles(buckets: Buckets) -> Quantiles:
    """Return p50, p95 and p99 by interpolation within buckets."""
    return Quantiles(
        p50_s=_quantile(buckets, 0.50),
        p95_s=_quantile(buckets, 0.95),
        p99_s=_quantile(buckets, 0.99),
    )


def _quantile(buckets: Buckets, share: float) -> float | None:
    edges = sorted(buckets)
    if not edges or buckets[edges[-1]] <= 0:
        return None
    rank = share * buckets[edges[-1]]
    lower_edge, below = 0.0, 0.0
    for edge in edges:
        count = buckets[edge]
        if count >= rank:
            if math.isinf(edge):
                return lower_edge
            inside = count - below
            part = (rank - below) / inside if inside > 0 else 1.0
            return lower_edge + (edge - lower_edge) * part
        lower_edge, below = edge, count
    return None
