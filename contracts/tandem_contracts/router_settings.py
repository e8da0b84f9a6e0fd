"""The settings of a pool's routers: ConfigMap `POOL-router`, key `router.json`.

The operator writes it, and routers watch it. An edit is in force at once and restarts nothing.
"""

from typing import Annotated, Literal

from pydantic import Field

from tandem_contracts.parts import Part
from tandem_contracts.ttft_bound import ttft_bound_s

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SloSettings(Part):
    """The bounds that make a request good."""

    ttft_s: Seconds
    ttft_s_per_thousand_prompt_tokens: NonNegative = 0.0
    tpot_s: Seconds
    attainment: Annotated[float, Field(gt=0, le=1)] = 0.99

    def ttft_bound_s(self, prompt_tokens: int) -> float:
        """Return the TTFT bound of a request with this many prompt tokens."""
        return ttft_bound_s(
            prompt_tokens,
            ttft_s=self.ttft_s,
            per_thousand_tokens_s=self.ttft_s_per_thousand_prompt_tokens,
        )


class LimitSettings(Part):
    """What one router accepts before it refuses."""

    body_bytes: Count = 4 * 1024 * 1024
    header_bytes: Count = 16 * 1024
    concurrent_requests: Count = 2000
    queued_requests: Annotated[int, Field(ge=0)] = 1000
    prefill_requests_per_pod: Count = 64
    prefill_tokens_per_pod: Count = 4096
    choices: Count = 16
    body_elements: Count = 262_144
    in_flight_body_bytes: Count = 128 * 1024 * 1024


class PaceSettings(Part):
    """How fast one decode pod is, as the operator learned it."""

    step_s: tuple[NonNegative, NonNegative, NonNegative]
    """A step takes `step_s[0] + step_s[1] x streams + step_s[2] x their KV tokens` seconds."""
    kv_capacity_tokens: Count | None = None
    """How many tokens its cache holds; null: not known."""
    max_num_seqs: Count
    output_tokens: Count | None = None
    """Mean output of a request, for a router that has seen none end; null: not known."""
    routers: Count = 1
    """How many routers send it requests."""
    gate: bool = True
    """Whether a request waits if decode pods could serve it only by slowing down every stream
    (`router.decodeAdmission`)."""
    overflow: bool = False
    """Whether whole requests go to decode pods with slack, if prefill pods would serve them late
    (`router.prefillOverflow`)."""

    def seconds(self, streams: float, kv_tokens: float) -> float:
        """Return the time of a step with so many streams that hold so many tokens."""
        least_s, per_stream_s, per_token_s = self.step_s
        return least_s + per_stream_s * streams + per_token_s * kv_tokens


class TimeoutSettings(Part):
    """How long each phase of a request may take."""

    connect_s: Seconds = 1.0
    prefill_s: Seconds = 60.0
    first_token_s: Seconds = 120.0
    idle_s: Seconds = 60.0
    request_s: Seconds = 600.0
    head_s: Seconds = 10.0
    """Its head, from the first byte on."""
    body_s: Seconds = 10.0
    """A body, or as much of it as arrives in that time at the least rate."""


class KvSettings(Part):
    """KV blocks of prompts that no decode pod has pulled yet."""

    lease_s: Seconds = 30.0
    """How long prefill pods keep them. The engines are started with the same value."""


class TracingSettings(Part):
    """Where spans of requests go."""

    endpoint: Annotated[str, Field(min_length=1)]
    """Base URL of a collector that takes OTLP over HTTP; the router adds `/v1/traces`."""
    sampling_ratio: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of requests that get a span, where the client's `traceparent` does not say."""


class RouterSettings(Part):
    """One whole settings document (`router.json`)."""

    schema_version: Literal[1] = Field(alias="schema")
    pool: Annotated[str, Field(min_length=1)]
    generation: int = 0
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """The names that clients may ask for. Engines are asked for the first, and answer with it."""
    max_model_len: Count | None = None
    slo: SloSettings
    limits: LimitSettings = LimitSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    kv: KvSettings = KvSettings()
    decode: PaceSettings | None = None
    """Null: nothing is known, or `gate` and `overflow` are off. Then the router admits every
    request, and no request overflows."""
    cache_salt_header: str | None = None
    """The request header whose value becomes the engines' `cache_salt`: tenants do not share
    prefixes then. Null: all share one cache."""
    request_log: Literal["off", "missed", "all"] = "off"
    """Which requests get a line in the router's log when they end. `missed`: those that were late,
    failed or were shed."""
    tracing: TracingSettings | None = None
    """Null: no request gets a span, and `traceparent` is passed on."""
