"""A small HTTP server that notes every write and answers like an API server."""

import contextlib
import json

from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from tandem_operator.kube.client import Kube


class Recorder:
    """Every write: method, path, query and body; answers with `respond`, else with the body.

    Reads are answered from `lists` by the last part of their path, else with `status`, and noted
    with their queries.
    """

    def __init__(self):
        self.writes = []
        self.respond = None
        self.lists = {}
        self.status = 403
        self.reads = []
        self.queries = []

    async def answer(self, request):
        if request.method == "GET":
            self.queries.append(dict(request.query))
            return self._listed(request.path)
        body = json.loads(await request.text())
        self.writes.append((request.method, request.path, dict(request.query), body))
        if self.respond is not None:
            return self.respond(body)
        return web.json_response(body)

    def _listed(self, path):
        self.reads.append(path)
        found = self.lists.get(path.rpartition("/")[2])
        if found is None:
            reason = "Forbidden" if self.status == 403 else "InTrouble"
            return web.json_response({"reason": reason, "message": "no"}, status=self.status)
        return web.json_response({"items": found})


@contextlib.asynccontextmanager
async def recording():
    """Run a client and the server that records it."""
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


class Clock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s
