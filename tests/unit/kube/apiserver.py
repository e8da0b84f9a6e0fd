"""A small HTTP server that notes what is written to it and answers like an API server."""

import contextlib
import json

from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from tandem_operator.kube.client import Kube


class Recorder:
    """Every write: method, path, query and body; answers with `respond`, else with the body."""

    def __init__(self):
        self.writes = []
        self.respond = None

    async def answer(self, request):
        body = json.loads(await request.text())
        self.writes.append((request.method, request.path, dict(request.query), body))
        if self.respond is not None:
            return self.respond(body)
        return web.json_response(body)


@contextlib.asynccontextmanager
async def recording():
    """A client and the server that records it."""
    recorder = Recorder()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", recorder.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    kube = Kube(ApiClient(configuration))
    try:
        yield kube, recorder
    finally:
        await kube.close()
        await runner.cleanup()
