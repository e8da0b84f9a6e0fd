"""Frees KV blocks that no decode pod will pull; otherwise they stay until their lease ends.

A prefill pod frees blocks that no decode pod knows of. If a decode pod knows of them, only this pod
can say whether it still pulls them, so the router asks this pod.
"""

import asyncio
from typing import Any

from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.forwarding.upstream import Upstream
from tandem_engine.router.openai.kv_fields import LET_GO_FIELD
from tandem_engine.router.pods.kv_lease import Handover
from tandem_engine.router.pods.pod import Pod


class KvReturn:
    """Asks pods to free blocks, in the background."""

    def __init__(self, *, upstream: Upstream, metrics: RouterMetrics) -> None:
        self._upstream = upstream
        self._metrics = metrics
        self._tasks: set[asyncio.Task[None]] = set()

    def unwanted(self, flight: Flight, handover: Handover) -> None:
        """Free blocks once, through the pod that knows that no pod pulls them."""
        if handover.over or (name := handover.name) is None:
            return
        pod, connect_s = handover.seen_by, flight.settings.timeouts.connect_s
        handover.over = True
        if pod is None:
            self._metrics.kv_given_back.inc()
            self._let_go(handover.prefill, name, {}, connect_s)
        elif isinstance(remote_id := handover.kv_params.get("remote_request_id"), str):
            self._let_go(pod, remote_id, handover.kv_params, connect_s)

    def unanswered(self, pod: Pod, name: str, *, connect_s: float) -> None:
        """Ask a prefill pod to free blocks of an answer that the router did not read."""
        if pod.names_leases:
            self._let_go(pod, name, {}, connect_s)

    def _let_go(self, pod: Pod, name: str, kv_params: dict[str, Any], connect_s: float) -> None:
        asked = {"do_remote_prefill": True, **kv_params, LET_GO_FIELD: name}
        task = asyncio.create_task(self._upstream.let_go(pod, asked, connect_s=connect_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
