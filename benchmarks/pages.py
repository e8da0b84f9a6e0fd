"""Sizes of metrics pages and the time to write them: `python -m benchmarks.pages`."""

import gzip
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from prometheus_client import CollectorRegistry, generate_latest

from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.samples import ROUTER_METRICS
from tandem_operator.metrics.shown_pool import ShownPool
from tests.integration.exported_story import last_shown

REQUESTS, TRIES = 20_000, 5


def router(requests: int = REQUESTS) -> RouterMetrics:
    """Return the metrics of a router that has served so many requests, with times of all sizes."""
    made, draw = RouterMetrics(), random.Random(1)
    for _ in range(requests):
        made.ttft.observe(draw.lognormvariate(-1.0, 1.0))
        made.tpot.observe(draw.lognormvariate(-4.0, 0.5))
        made.observe_parts({part: draw.lognormvariate(-2.0, 1.5) for part in made.parts})
    return made


def operator(shown: ShownPool, *, pools: int) -> CollectorRegistry:
    """Return the registry of an operator that shows so many pools."""
    registry = CollectorRegistry()
    exported = Exported(registry)
    for number in range(pools):
        exported.show(replace(shown, namespace=f"team-{number % 20}", pool=f"pool-{number}"))
    return registry


def row(name: str, write: Callable[[], bytes]) -> str:
    """Return the size of a page, plain and packed, and the least time that it took to write."""
    page, times_s = write(), []
    for _ in range(TRIES):
        began_s = time.thread_time()
        write()
        times_s.append(time.thread_time() - began_s)
    packed = len(gzip.compress(page))
    lines = page.count(b"\n")
    return f"| {name} | {lines:,} | {len(page):,} | {packed:,} | {1000 * min(times_s):.1f} ms |"


def rows() -> Sequence[str]:
    """Return the table."""
    busy, shown = router(), last_shown()
    registries = {pools: operator(shown, pools=pools) for pools in (1, 200)}
    return [
        "| page | lines | bytes | packed | time to write |",
        "|---|---|---|---|---|",
        row("router", busy.exposition),
        row("router, of what the operator reads", lambda: busy.exposition(ROUTER_METRICS)),
        *(
            row(f"operator, pools: {pools}", partial(generate_latest, made))
            for pools, made in registries.items()
        ),
    ]


if __name__ == "__main__":
    print("\n".join(rows()))
