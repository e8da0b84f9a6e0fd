"""Parsing a router's `/arrivals`: all of it is right, or the report is refused."""

import math
from typing import Annotated, Literal

from pydantic import (
    Field,
    FiniteFloat,
    TypeAdapter,
    model_validator,
)

from tandem_operator.core.observation import (
    ArrivalSecond,
    FinishedSecond,
    Leg,
    RouterReport,
    SickPod,
)
from tandem_operator.core.role import Role
from tandem_operator.metrics.lenient import Lenient, parse_bounded

SKEW_TOLERATED_S = 2.0
MOST_ROWS = 1300
"""A router keeps 1,200 seconds."""
MOST_BUCKETS = 16
MOST_LEGS = 4096
MOST_CAUSES = 16

Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=1e24)]
Name = Annotated[str, Field(max_length=253)]
Counts = Annotated[list[Count], Field(max_length=MOST_BUCKETS + 1)]
Arrival = tuple[Count, Counts, Counts, Count]
Cause = Annotated[str, Field(max_length=64)]


class _Finished(Lenient):
    finished: Count
    good: Count
    late_ttft: Count
    late_tpot: Count
    failed: Count
    shed: Count
    gone: Count
    output_tokens: Count
    output_tokens_squared: Count
    blame: dict[Cause, Count] = Field(default_factory=dict, max_length=MOST_CAUSES)
    echoes: dict[Cause, Count] = Field(default_factory=dict, max_length=MOST_CAUSES)


class _InSystem(Lenient):
    queued_requests: Count
    queued_prompt_tokens: Count
    prefill_requests: Count
    decode_requests: Count
    held_prompt_tokens: Count = 0
    overdue_requests: Count = 0
    held_overdue_requests: Count = 0


class _Leg(Lenient):
    pod: Name
    role: Role
    busy_s: Amount
    requests: Count
    prompt_tokens: Count
    cached_tokens: Count
    prompt_token_contexts: Amount
    output_tokens: Count


class _Sick(Lenient):
    pod: Name
    role: Role
    since_s: Amount
    reason: Annotated[str, Field(max_length=64)]


class _Report(Lenient):
    version: Literal[1] = Field(alias="schema")
    router: Name
    started_s: Amount
    now_s: Amount
    bucket_edges_tokens: Annotated[tuple[Count, ...], Field(max_length=MOST_BUCKETS)]
    arrivals: Annotated[list[Arrival], Field(max_length=MOST_ROWS)]
    finished: Annotated[list[tuple[Count, _Finished]], Field(max_length=MOST_ROWS)]
    in_system: _InSystem
    legs: Annotated[list[_Leg], Field(max_length=MOST_LEGS)]
    sick: list[_Sick] = Field(default_factory=list, max_length=MOST_LEGS)
    busy_share: Amount | None = None

    @model_validator(mode="after")
    def _rows_fit_buckets(self) -> "_Report":
        width = len(self.bucket_edges_tokens) + 1
        for second, requests, tokens, _ in self.arrivals:
            if len(requests) != width or len(tokens) != width:
                raise ValueError(f"arrivals of second {second} need {width} buckets")
        return self


_REPORT: TypeAdapter[_Report] = TypeAdapter(_Report)


def parse_arrivals(raw: bytes, *, now_s: float) -> RouterReport:
    """The report, on this process's clock. Raises `ValueError` naming what is wrong with it.

    A router whose clock is off by more than `SKEW_TOLERATED_S` has all its times shifted by whole
    seconds; a smaller difference is the time the answer took.
    """
    try:
        report: _Report = parse_bounded(_REPORT, raw)
    except ValueError as error:
        raise ValueError(f"/arrivals: {error}") from None
    skew_s = now_s - report.now_s
    shift_s = round(skew_s) if math.fabs(skew_s) > SKEW_TOLERATED_S else 0
    return RouterReport(
        router=report.router,
        sampled_s=report.now_s + shift_s,
        started_s=report.started_s + shift_s,
        bucket_edges_tokens=report.bucket_edges_tokens,
        arrivals=tuple(
            ArrivalSecond(
                second=second + shift_s,
                requests=tuple(requests),
                prompt_tokens=tuple(tokens),
                cached_tokens=cached,
            )
            for second, requests, tokens, cached in report.arrivals
        ),
        finished=tuple(
            FinishedSecond(second=second + shift_s, **row.model_dump())
            for second, row in report.finished
        ),
        **report.in_system.model_dump(),
        legs=tuple(Leg(**leg.model_dump()) for leg in report.legs),
        sick=tuple(
            SickPod(sick.pod, sick.role, sick.since_s + shift_s, sick.reason)
            for sick in report.sick
        ),
        busy_share=report.busy_share,
    )
