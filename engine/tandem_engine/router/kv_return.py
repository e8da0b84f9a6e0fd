"""Gives KV blocks back that no decode pod will come for; without it they lie there for a lease."""

import asyncio

from tandem_engine.router.kv_lease import Handover
from tandem_engine.router.metrics import Metrics
from tandem_engine.router.upstream import Upstream


class KvReturn:
    """Tells prefill pods to let go, beside whatever else is done."""

    def __init__(self, *, upstream: Upstream, metrics: Metrics) -> None:
        self._upstream = upstream
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def give_back(self, handover: Handover, *, connect_s: float) -> None:
        """Have the prefill pod let go, unless a decode pod may still come."""
        if not handover.returnable:
            return
        self._metrics.kv_given_back.inc()
        task = asyncio.create_task(
            self._upstream.give_back(handover.prefill, handover.kv_params, connect_s=connect_s)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
