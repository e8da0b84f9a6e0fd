"""The causes of late requests, phase by phase, as the routers counted and Prometheus has them."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import aiohttp

from e2e.demo.story import PhaseRun

SCRAPED_S = 6.0
"""The time after which the last request was scraped."""
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


async def with_causes(
    runs: Sequence[PhaseRun],
    *,
    prometheus_url: str,
    namespace: str,
    pool: str,
    scraped_s: float = SCRAPED_S,
) -> tuple[PhaseRun, ...]:
    """Give each phase its late requests by cause; a request counts where it ended.

    Raises `aiohttp.ClientError` if Prometheus does not answer.
    """
    await asyncio.sleep(scraped_s)
    labels = f'namespace="{namespace}",pool="{pool}"'
    query = f"sum by (cause) (tandem_router_blame_total{{{labels}}})"
    moments = [*(run.started_s for run in runs), time.time()]
    async with aiohttp.ClientSession(prometheus_url, timeout=_TIMEOUT) as session:
        counts = [await _counts(session, query, at_s=at_s) for at_s in moments]
    return tuple(
        replace(run, late_by_cause=_more(before, after))
        for run, (before, after) in zip(runs, pairwise(counts), strict=True)
    )


async def _counts(session: aiohttp.ClientSession, query: str, *, at_s: float) -> dict[str, int]:
    asked = {"query": query, "time": f"{at_s:.3f}"}
    async with session.get("/api/v1/query", params=asked, raise_for_status=True) as response:
        answer = await response.json()
    return {
        str(each["metric"]["cause"]): int(float(each["value"][1]))
        for each in answer["data"]["result"]
    }


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    more = {cause: count - before.get(cause, 0) for cause, count in after.items()}
    return {cause: count for cause, count in more.items() if count > 0}
