"""The writer of a pool's HTTPRoute: a failure of this write stops no other write.

It is the last write of a pass, so no other write depends on it. The next pass tries again.
"""

from collections.abc import Mapping
from dataclasses import replace

import aiohttp

from tandem_operator.kube.apply import (
    ApplyReport,
    ChildKey,
    ChildWriter,
    PreviousPoolRemainsError,
    refusal_of,
)
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
    """Return the result of the application, and the outcome of the pass with it."""
    if route is None:
        return ApplyReport(), outcome
    kind, name = key_of(route)
    report, fault = ApplyReport(), None
    try:
        report = await writer.apply([route], observed, pool_uid=pool_uid)
    except ApiServerError as error:
        # The API server can refuse even the read of an object of that name.
        why = refusal_of(error) or error.message
        fault = f"The API server refused {kind} {name}: {why}"
    except PreviousPoolRemainsError as error:
        fault = f"{error} If it stays, its controller is gone: remove its finalizers."
    except (aiohttp.ClientError, TimeoutError) as error:
        fault = f"The API server did not answer for {kind} {name} ({type(error).__name__})."
    if report.refused is not None:
        fault = f"The API server refused {report.refused}"
    return report, replace(
        outcome,
        left=(*outcome.left, *(each.left_alone for each in report.left)),
        route_fault=fault or report.blocked,
        route_written=bool(report.written),
    )
