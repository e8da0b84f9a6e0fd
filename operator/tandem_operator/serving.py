"""The operator's own two HTTP ports: health and metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

Check = Callable[[], str | None]
"""What is wrong, or `None`."""


@dataclass(slots=True)
class ProbeHealth:
    """What the probes answer; parts of the process put their checks in as they start.

    Attributes:
        live: what only a restart can mend.
        ready: what keeps this process from doing its part, as leader or as standby.
    """

    live: dict[str, Check] = field(default_factory=dict)
    ready: dict[str, Check] = field(default_factory=dict)


def _probe(checks: dict[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        failing = {name: fault for name, check in checks.items() if (fault := check()) is not None}
        text = "".join(f"{name}: {fault}\n" for name, fault in failing.items()) or "ok\n"
        return web.Response(text=text, status=500 if failing else 200)

    return answer


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})


class Servers:
    """Both ports, from before the election until the end."""

    def __init__(self, health: ProbeHealth, *, health_port: int, metrics_port: int) -> None:
        probes, metrics = web.Application(), web.Application()
        probes.router.add_get("/healthz", _probe(health.live))
        probes.router.add_get("/readyz", _probe(health.ready))
        metrics.router.add_get("/metrics", _metrics)
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
