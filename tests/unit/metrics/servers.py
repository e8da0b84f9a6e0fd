"""Small real HTTP servers on loopback for routers, engines and Prometheus."""

import asyncio
import contextlib
from urllib.parse import parse_qs

from aiohttp import web

from tandem_operator.metrics.prometheus_access import PrometheusAccess, ServerAccess
from tests.unit.workloads.cluster import INSTALLATION


@contextlib.asynccontextmanager
async def serving(handlers):
    """Serve paths by handlers; yields the port and the list of requests seen."""
    seen = []

    async def answer(request):
        body = await request.text()
        seen.append(
            (request.path, {**request.query, **{k: v[0] for k, v in parse_qs(body).items()}})
        )
        handler = handlers[request.path]
        result = handler(request) if callable(handler) else handler
        if asyncio.iscoroutine(result):
            result = await result
        return result if isinstance(result, web.StreamResponse) else web.Response(text=result)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1], seen
    finally:
        await runner.cleanup()


class Values:
    """Secrets and ConfigMaps of a pool's namespace: by name, `None` where they may not be read."""

    def __init__(self, **held):
        self.held = held

    async def of_secret(self, *, namespace, name, key):
        return self.value("Secret", name, key)

    async def of_config_map(self, *, namespace, name, key):
        return self.value("ConfigMap", name, key)

    def value(self, kind, name, key):
        if self.held.get(name) is None:
            raise LookupError(f"the operator may not read {kind} {name}")
        return self.held[name]


def access(session, installation=INSTALLATION, **held):
    """Return the Prometheus servers of an installation, all asked by one session."""
    return PrometheusAccess(
        installation, values=Values(**held), open_session=session, guarded_session=session
    )


def server_at(session, url, **more):
    """Return one Prometheus server."""
    return ServerAccess(session, url, **more)
