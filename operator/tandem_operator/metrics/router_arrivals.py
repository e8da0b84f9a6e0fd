"""The parser of a router's `/arrivals`: one wrong part makes the report invalid."""

import math

from pydantic import TypeAdapter

from tandem_contracts.arrivals import ArrivalsReport
from tandem_operator.core.observation import (
    ArrivalSecond,
    ClassWindow,
    FinishedSecond,
    Leg,
    RouterReport,
    SickPod,
    TenantWindow,
)
from tandem_operator.core.role import Role
from tandem_operator.metrics.lenient import parse_bounded

SKEW_TOLERATED_S = 2.0

_REPORT: TypeAdapter[ArrivalsReport] = TypeAdapter(ArrivalsReport)


def parse_arrivals(raw: bytes, *, now_s: float) -> RouterReport:
    """Return the report, on this process's clock. Raises `ValueError` that names the fault.

    If a router's clock is off by more than `SKEW_TOLERATED_S`, all its times are shifted by whole
    seconds. A smaller difference is the time of the answer.
    """
    try:
        report: ArrivalsReport = parse_bounded(_REPORT, raw)
    except ValueError as error:
        raise ValueError(f"/arrivals: {error}") from None
    skew_s = now_s - report.now_s
    shift_s = round(skew_s) if math.fabs(skew_s) > SKEW_TOLERATED_S else 0
    cached_in = dict(report.cached_by_bucket)
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
                cached_by_bucket=tuple(cached_in.get(second, ())),
            )
            for second, requests, tokens, cached in report.arrivals
        ),
        best_effort=tuple(second + shift_s for second in report.best_effort),
        finished=tuple(
            FinishedSecond(second=second + shift_s, **row.model_dump())
            for second, row in report.finished
        ),
        **report.in_system.model_dump(),
        legs=tuple(Leg(**leg.model_dump() | {"role": Role(leg.role)}) for leg in report.legs),
        sick=tuple(
            SickPod(sick.pod, Role(sick.role), sick.since_s + shift_s, sick.reason)
            for sick in report.sick
        ),
        cache_worth_tokens=report.cache_worth_tokens,
        busy_share=report.busy_share,
        woken_token_s=None if report.woken_token_s is None else report.woken_token_s + shift_s,
        classes=tuple(ClassWindow(**each.model_dump()) for each in report.classes),
        tenants=tuple(TenantWindow(**each.model_dump()) for each in report.tenants),
    )
