"""The settings of a pool's routers: ConfigMap `POOL-router`, key `router.json`.

The operator writes them, and routers watch them. An edit takes effect at once and restarts nothing.
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


DEFAULT_CLASS = "default"
"""The class of requests that belong to no other class."""


class ClassSettings(Part):
    """Requests of one kind, and how they are served."""

    name: Annotated[str, Field(min_length=1, max_length=32)]
    slo: SloSettings
    guaranteed: bool = True
    """False means best effort: the class uses the capacity that guaranteed classes leave."""
    priority: int = 0
    """The highest goes first: among guaranteed classes if not all requests can be on time, and
    always among best effort."""
    refuse_late: bool = False
    """Whether a waiting request is refused once it cannot be on time any more."""
    models: tuple[str, ...] = ()
    """Names of `models` whose requests always have this class, whatever class they name."""
    keys: tuple[str, ...] = ()
    """`sha256:` and the digest of each API key that may use the class. Empty: every client may."""


OTHER_TENANTS = "other"
"""The name of all tenants together that a pool does not name."""


class TenantSettings(Part):
    """A tenant that has its own weight and limits."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    keys: tuple[str, ...] = ()
    """`sha256:` and the digest of each API key of the tenant."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Its part of the service, relative to the others."""
    requests_per_minute: Count | None = None
    """Null: any number; so for the next field."""
    tokens_per_minute: Count | None = None


class TenantsSettings(Part):
    """How requests tell their tenant, and the limits of tenants that are not named."""

    header: str | None = None
    """The request header with the name of the tenant. Null: only its API key tells it."""
    named: tuple[TenantSettings, ...] = ()
    others: Literal["separate", "shared"] = "separate"
    """Whether each tenant that is not named has its own share and limits, or all have one."""
    requests_per_minute: Count | None = None
    """Of each tenant that is not named; null: any number; so for the next field."""
    tokens_per_minute: Count | None = None


class LimitSettings(Part):
    """Limits beyond which one router refuses requests."""

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
    """The learned speed of one decode pod."""

    step_s: tuple[NonNegative, NonNegative, NonNegative]
    """A step takes `step_s[0] + step_s[1] x streams + step_s[2] x their KV tokens` seconds."""
    kv_capacity_tokens: Count | None = None
    """Tokens that its KV cache can hold; null: not known."""
    max_num_seqs: Count
    output_tokens: Count | None = None
    """Mean output of a request, for a router that has no finished request yet; null: not known."""
    routers: Count = 1
    """Number of routers that send requests to the pod."""
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
    """Longest time of each phase of a request."""

    connect_s: Seconds = 1.0
    prefill_s: Seconds = 60.0
    first_token_s: Seconds = 120.0
    idle_s: Seconds = 60.0
    request_s: Seconds = 600.0
    head_s: Seconds = 10.0
    """The head of the request, from its first byte."""
    body_s: Seconds = 10.0
    """The body, or as much of it as arrives in that time at the least rate."""


class KvSettings(Part):
    """KV blocks of prompts that no decode pod has pulled yet."""

    lease_s: Seconds = 30.0
    """Time for which prefill pods keep them. Engines start with the same value."""


class TracingSettings(Part):
    """The destination and the sampling of spans."""

    endpoint: Annotated[str, Field(min_length=1)]
    """Base URL of a collector that takes OTLP over HTTP; the router adds `/v1/traces`."""
    sampling_ratio: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of requests without a client's `traceparent` that get a span."""


class RouterSettings(Part):
    """One whole settings document (`router.json`)."""

    schema_version: Literal[1] = Field(alias="schema")
    pool: Annotated[str, Field(min_length=1)]
    generation: int = 0
    models: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names that clients may use. Requests to engines and all answers have the first one."""
    max_model_len: Count | None = None
    slo: SloSettings
    """Bounds of all requests; if there are classes, the strictest of the guaranteed ones."""
    classes: tuple[ClassSettings, ...] = ()
    """Empty: all requests are of one kind. Otherwise one class is `default`."""
    tenants: TenantsSettings | None = None
    """Null: all requests of a class are served alike, whoever sends them."""
    limits: LimitSettings = LimitSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    kv: KvSettings = KvSettings()
    decode: PaceSettings | None = None
    """Null: nothing is known, or `gate` and `overflow` are off. Then the router admits every
    request, and no request overflows."""
    prefix_placement: bool = True
    """Whether the router chooses prefill pods by the cached part of a prompt
    (`router.prefillPlacement`)."""
    cache_salt_header: str | None = None
    """The request header whose value becomes the engines' `cache_salt`, so that tenants share no
    prefixes. Null: all requests share one cache."""
    request_log: Literal["off", "missed", "all"] = "off"
    """Requests that get a line in the router's log when they end. `missed`: those that were late,
    failed or were shed."""
    wake_s: Seconds | None = None
    """Time until a pool at zero serves again. Requests that arrive at such a pool wait for it.
    Null: the pool does not go to zero by itself, or nothing would wake it."""
    tracing: TracingSettings | None = None
    """Null: no request gets a span, and the router passes `traceparent` on."""
