"""Small real HTTP servers on loopback for routers, engines and Prometheus."""

import asyncio
import contextlib
from urllib.parse import parse_qs

from aiohttp import web


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
