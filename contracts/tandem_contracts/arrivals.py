"""The answer of a router to `GET /arrivals` of its internal port: rows of seconds, and totals.

A second without a row had no event if it lies after `started_s`. Before `started_s` it is unknown.
Rows of the last seconds change after engines have reported exact counts of tokens. Until then they
are estimates, of at most `max_model_len` tokens per prompt.
"""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, model_validator

from tandem_contracts.parts import Part

MOST_ROWS = 1300
"""A router keeps 1,200 seconds."""
MOST_BUCKETS = 16
MOST_LEGS = 4096
MOST_CAUSES = 16
MOST_CLASSES = 16
MOST_TENANTS = 65
"""A pool names at most 64, and all others are one row."""
MOST_COUNT = 2**53
MOST_AMOUNT = 1e24

EngineRole = Literal["prefill", "decode"]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=MOST_AMOUNT)]
Name = Annotated[str, Field(max_length=253)]
Counts = Annotated[list[Count], Field(max_length=MOST_BUCKETS + 1)]
Cause = Annotated[str, Field(max_length=64)]
Causes = Annotated[dict[Cause, Count], Field(max_length=MOST_CAUSES)]
ArrivalRow = tuple[Count, Counts, Counts, Count]
"""Second, requests and prompt tokens per prompt-length bucket, cached tokens known so far."""
CachedRow = tuple[Count, Counts]
"""Second, and the cached tokens of its arrival row per prompt-length bucket."""


class FinishedRow(Part):
    """Requests that ended in one second."""

    finished: Count
    """All requests except those of `gone`."""
    good: Count
    late_ttft: Count
    """A request can count both here and in `late_tpot`."""
    late_tpot: Count
    failed: Count
    shed: Count
    gone: Count
    """Requests whose client left before the TTFT bound."""
    output_tokens: Count
    output_tokens_squared: Count
    """Sum over requests of the squared output tokens, for the variance."""
    blame: Causes = Field(default_factory=dict)
    """Number of requests that were not good, by cause."""
    echoes: Causes = Field(default_factory=dict)
    """The part of `blame` that waited in the router for more than a minute beyond the TTFT bound.
    These requests were in `overdue_requests` when their bound passed."""


class InSystem(Part):
    """Requests that the router holds or serves."""

    queued_requests: Count
    queued_prompt_tokens: Count
    """Without best effort, as in all fields below about queued requests."""
    prefill_requests: Count
    decode_requests: Count
    held_prompt_tokens: Count = 0
    """The part of `queued_prompt_tokens` that waited mostly for room at the decode pods."""
    overdue_requests: Count = 0
    """Queued requests whose TTFT bound passed within the last minute."""
    held_overdue_requests: Count = 0
    """The part of `overdue_requests` that waited mostly for room at the decode pods."""


class ClassReport(Part):
    """Requests of one class: those that ended within `window_s`, and those that wait."""

    name: Annotated[str, Field(max_length=32)]
    window_s: Amount
    finished: Count
    good: Count
    output_tokens: Count
    good_output_tokens: Count
    """Output tokens of good requests."""
    queued_requests: Count


class TenantReport(Part):
    """Requests of one tenant that ended within `window_s`."""

    name: Annotated[str, Field(max_length=63)]
    """A name of the pool's settings, or `other` for all tenants that they do not name."""
    window_s: Amount
    finished: Count
    """All requests except those of `limited`, and those whose client left before the TTFT bound."""
    good: Count
    """Requests within the bounds of their class."""
    too_late: Count
    """The part of `finished` that the router refused, because it could not be on time any more."""
    shed: Count = 0
    """The part of `finished` that the router shed: the queue was full, or no pod was free in time.
    Routers before this field do not tell it."""
    limited: Count
    """Requests that a limit of the tenant refused."""
    output_tokens: Count


class LegReport(Part):
    """Running totals of one engine pod since the router started."""

    pod: Name
    role: EngineRole
    busy_s: Amount
    """Time with at least one request of this role at the pod."""
    requests: Count
    prompt_tokens: Count
    cached_tokens: Count
    prompt_token_contexts: Amount
    """The sum over requests of u * (cached + u / 2), with u uncached tokens: the quadratic term."""
    output_tokens: Count


class SickReport(Part):
    """A Ready pod that gets no request from this router, or one request on trial."""

    pod: Name
    role: EngineRole
    since_s: Amount
    reason: Annotated[str, Field(max_length=64)]
    """`refused`, `silent`, `failures`, `failure_share`, `no_progress`, `slow` or `kv`."""


class ArrivalsReport(Part):
    """The whole report; times are seconds of the router's wall clock."""

    version: Literal[1] = Field(alias="schema")
    router: Name
    started_s: Amount
    now_s: Amount
    bucket_edges_tokens: Annotated[tuple[Count, ...], Field(max_length=MOST_BUCKETS)]
    """Edges of the prompt-length buckets; there is one more bucket than edges."""
    arrivals: Annotated[list[ArrivalRow], Field(max_length=MOST_ROWS)]
    """A row per second: second, requests per bucket, prompt tokens per bucket, cached tokens. A
    request counts on entry, whatever its outcome, unless the router or an engine refuses it as
    malformed. Best effort does not count here, because no replica is held for it."""
    cached_by_bucket: list[CachedRow] = Field(default_factory=list, max_length=MOST_ROWS)
    """The cached tokens of `arrivals` per bucket, of the seconds that have any. An older router
    does not report them."""
    best_effort: list[Count] = Field(default_factory=list, max_length=MOST_ROWS)
    """The seconds in which best effort came, counted as above. It keeps a pool awake, as others
    do."""
    finished: Annotated[list[tuple[Count, FinishedRow]], Field(max_length=MOST_ROWS)]
    """A row per second: second, counts. Best effort does not count."""
    in_system: InSystem
    classes: list[ClassReport] = Field(default_factory=list, max_length=MOST_CLASSES)
    """All requests by class, if the pool has classes."""
    tenants: list[TenantReport] = Field(default_factory=list, max_length=MOST_TENANTS)
    """All requests by tenant, if the pool has tenants."""
    legs: Annotated[list[LegReport], Field(max_length=MOST_LEGS)]
    sick: list[SickReport] = Field(default_factory=list, max_length=MOST_LEGS)
    """A pod that was ejected only once is not listed while it waits for its trial request."""
    cache_worth_tokens: dict[Name, Count] = Field(default_factory=dict, max_length=MOST_LEGS)
    """By prefill pod, the prompt tokens that its cache alone saved this router lately: older ones
    count less, by a factor of e in 60 s. Empty if the router does not place by prefix."""
    busy_share: Amount | None = None
    """Share of one core that the router used in the last half minute. A router computes on one
    thread."""

    woken_token_s: Amount | None = None
    """Time of the first token, after the latest wake from zero, of a request that had waited for
    this wake."""

    @model_validator(mode="after")
    def _rows_fit_buckets(self) -> "ArrivalsReport":
        width = len(self.bucket_edges_tokens) + 1
        for second, requests, tokens, _ in self.arrivals:
            if len(requests) != width or len(tokens) != width:
                raise ValueError(f"arrivals of second {second} need {width} buckets")
        for second, cached in self.cached_by_bucket:
            if len(cached) != width:
                raise ValueError(f"cached tokens of second {second} need {width} buckets")
        return self
