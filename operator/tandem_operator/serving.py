"""The operator's own two HTTP ports: health and metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

Check = Callable[[], str | None]
"""A check that returns its fault in words, or `None`."""


@dataclass(slots=True)
class ProbeHealth:
    """The answers of the probes; parts of the process add their checks as they start.

    Attributes:
        live: faults that only a restart can repair.
        ready: faults that keep this process from its work, as leader or as standby.
    """

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)


def _probe(checks: dict[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        failing = {name: fault for name, check in checks.items() if (fault := check()) is not None}
        text = "".join(f"{name}: {fault}\n" for name, fault in failing.items()) or "ok\n"
        return web.Response(text=text, status=500 if failing else 200)

    return answer


# A page of many pools takes a while to write. One thread writes one page at a time. Meanwhile the
# process's own loop makes its passes over pools.
_WRITER = ThreadPoolExecutor(1, thread_name_prefix="metrics")


def _page(refresh: Callable[[], None]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        named = request.query.getall("name[]", [])
        registry = REGISTRY.restricted_registry(named) if named else REGISTRY
        refresh()
        loop = asyncio.get_running_loop()
        body = await loop.run_in_executor(_WRITER, generate_latest, registry)
        page = web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
        page.enable_compression()
        return page

    return answer


class Servers:
    """The servers of both ports, from before the election until the end.

    Args:
        refresh: reads the loop's values for a page of metrics, on the loop.
    """

    def __init__(
        self,
        health: ProbeHealth,
        *,
        health_port: int,
        metrics_port: int,
        refresh: Callable[[], None],
    ) -> None:
        probes, metrics = web.Application(), web.Application()
        probes.router.add_get("/healthz", _probe(health.live))
        probes.router.add_get("/readyz", _probe(health.ready))
        metrics.router.add_get("/metrics", _page(refresh))
        self._runners = {
            health_port: web.AppRunner(probes, access_log=None),
            metrics_port: web.AppRunner(metrics, access_log=None),
        }

    async def start(self) -> None:
        """Listen on all addresses: probes and scrapes come from outside the pod."""
        for port, runner in self._runners.items():
            await runner.setup()
            await web.TCPSite(runner, None, port).start()

    async def stop(self) -> None:
        """Stop listening."""
        for runner in self._runners.values():
            await runner.cleanup()
