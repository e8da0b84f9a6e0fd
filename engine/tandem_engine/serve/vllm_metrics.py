"""The few numbers that the launcher reads from vLLM's metrics page. Pure."""

import re
from dataclasses import dataclass

_SAMPLE = re.compile(r"^(\w[\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One line of a metrics page."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The load of an engine: requests, and KV blocks of requests or leases."""

    running: float
    waiting: float
    kv_usage_share: float
    finished: float

    @property
    def idle(self) -> bool:
        """Return whether no request runs or waits and no KV block is held."""
        return self.running == 0 and self.waiting == 0 and self.kv_usage_share == 0


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters that stand still if an engine core hangs: each changes with the core's steps.

    Attributes:
        steps: steps that made a token.
        kv_usage_share: used share of the KV cache; it changes during a prompt of many steps.
        asleep: whether the engine was put to sleep.
    """

    running: float
    waiting: float
    tokens: float
    steps: float
    kv_usage_share: float
    asleep: bool

    @property
    def requests(self) -> int:
        """Return the number of its requests."""
        return round(self.running + self.waiting)

    @property
    def blocked(self) -> bool:
        """Return whether it may have stopped for lack of KV blocks, which others hold."""
        return self.running == 0 and self.waiting > 0 and self.kv_usage_share > 0


class MissingMetricError(Exception):
    """The page lacks a metric that this vLLM should have."""


def parse(page: str) -> list[MetricLine]:
    """Return the samples of a page in the Prometheus text format."""
    matches = (_SAMPLE.match(line) for line in page.splitlines() if not line.startswith("#"))
    return [
        MetricLine(found[1], dict(_LABEL.findall(found[2] or "")), float(found[3]))
        for found in matches
        if found
    ]


def total(samples: list[MetricLine], name: str, **labels: str) -> float:
    """Return the sum over all samples of a name with these labels."""
    values = [
        sample.value
        for sample in samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    if not values:
        raise MissingMetricError(f"vLLM's metrics have no {name} with {labels}")
    return sum(values)


def load(samples: list[MetricLine]) -> EngineLoad:
    """Return the load of the engine."""
    return EngineLoad(
        running=total(samples, "vllm:num_requests_running"),
        waiting=total(samples, "vllm:num_requests_waiting"),
        kv_usage_share=total(samples, "vllm:kv_cache_usage_perc"),
        finished=total(samples, "vllm:request_success_total"),
    )


def counters(samples: list[MetricLine]) -> Counters:
    """Return the counters that change while the engine works."""
    awake = [
        sample.value
        for sample in samples
        if sample.name == "vllm:engine_sleep_state" and sample.labels.get("sleep_state") == "awake"
    ]
    return Counters(
        running=total(samples, "vllm:num_requests_running"),
        waiting=total(samples, "vllm:num_requests_waiting"),
        tokens=total(samples, "vllm:generation_tokens_total"),
        steps=total(samples, "vllm:iteration_tokens_total_count"),
        kv_usage_share=total(samples, "vllm:kv_cache_usage_perc"),
        asleep=bool(awake) and not any(awake),
    )


def kv_capacity_tokens(samples: list[MetricLine]) -> int | None:
    """Return the tokens that the KV cache holds, or `None` if vLLM does not report it."""
    for sample in samples:
        blocks = sample.labels.get("num_gpu_blocks", "")
        size = sample.labels.get("block_size", "")
        if sample.name == "vllm:cache_config_info" and blocks.isdigit() and size.isdigit():
            return int(blocks) * int(size)
    return None
