"""What a router reports on `GET /arrivals` of its internal port: rows of seconds, and totals.

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

EngineRole = Literal["prefill", "decode"]
Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=1e24)]
Name = Annotated[str, Field(max_length=253)]
Counts = Annotated[list[Count], Field(max_length=MOST_BUCKETS + 1)]
Cause = Annotated[str, Field(max_length=64)]
Causes = Annotated[dict[Cause, Count], Field(max_length=MOST_CAUSES)]
ArrivalRow = tuple[Count, Counts, Counts, Count]
"""Second, requests and prompt tokens per prompt-length bucket, cached tokens known so far."""


class FinishedRow(Part):
    """Requests that ended in one second."""

    finished: Count
    """All but those of `gone`."""
    good: Count
    late_ttft: Count
    """A request may count here and in `late_tpot`."""
    late_tpot: Count
    failed: Count
    shed: Count
    gone: Count
    """Their client left before the TTFT bound."""
    output_tokens: Count
    output_tokens_squared: Count
    """The sum over requests of the squares, for the variance."""
    blame: Causes = Field(default_factory=dict)
    """Requests that were not good, by what made them so."""
    echoes: Causes = Field(default_factory=dict)
    """Those of `blame` that waited in the router for more than a minute beyond their TTFT bound.
    They were in `overdue_requests` when the bound passed."""


class InSystem(Part):
    """Requests that the router holds or serves."""

    queued_requests: Count
    queued_prompt_tokens: Count
    prefill_requests: Count
    decode_requests: Count
    held_prompt_tokens: Count = 0
    """The part of `queued_prompt_tokens` that waited mostly for room at the decode pods."""
    overdue_requests: Count = 0
    """Those queued whose TTFT bound passed within the last minute."""
    held_overdue_requests: Count = 0
    """The part of `overdue_requests` that waited mostly for room at the decode pods."""


class LegReport(Part):
    """Running totals of one engine pod since the router started."""

    pod: Name
    role: EngineRole
    busy_s: Amount
    """The time with at least one request at the pod's leg."""
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
    malformed."""
    finished: Annotated[list[tuple[Count, FinishedRow]], Field(max_length=MOST_ROWS)]
    """A row per second: second, counts."""
    in_system: InSystem
    legs: Annotated[list[LegReport], Field(max_length=MOST_LEGS)]
    sick: list[SickReport] = Field(default_factory=list, max_length=MOST_LEGS)
    """A pod that was out only once is here once its trial is under way."""
    busy_share: Amount | None = None
    """The share of one core that the router used in the last half minute; it computes on one
    thread."""

    @model_validator(mode="after")
    def _rows_fit_buckets(self) -> "ArrivalsReport":
        width = len(self.bucket_edges_tokens) + 1
        for second, requests, tokens, _ in self.arrivals:
            if len(requests) != width or len(tokens) != width:
                raise ValueError(f"arrivals of second {second} need {width} buckets")
        return self
