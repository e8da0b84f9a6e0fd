"""Applying a pool's HTTPRoute: who refuses it keeps nothing else from the pool."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_operator.kube.apply import ApplyReport, ChildKey, ChildWriter, refusal_of
from tandem_operator.kube.client import ApiServerError, Object
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.pool_names import key_of


async def apply_route(
    writer: ChildWriter,
    route: Object | None,
    observed: Mapping[ChildKey, Object],
    outcome: WriteOutcome,
    *,
    pool_uid: str,
) -> tuple[ApplyReport, WriteOutcome]:
    """What the application did, and the outcome of the pass with it."""
    if route is None:
        return ApplyReport(), outcome
    try:
        report = await writer.apply([route], observed, pool_uid=pool_uid)
    except ApiServerError as error:
        # Even to read who has its name can be refused.
        why = refusal_of(error)
        if why is None:
            raise
        kind, name = key_of(route)
        report = ApplyReport(refused=f"{kind} {name}: {why}")
    refused = None if report.refused is None else f"The API server refused {report.refused}"
    return report, replace(
        outcome,
        left=(*outcome.left, *(each.left_alone for each in report.left)),
        route_fault=refused or report.blocked,
        route_written=bool(report.written),
    )
