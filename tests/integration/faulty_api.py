"""A proxy before the API server that answers errors, or breaks watches, when a test says so."""

import asyncio
import contextlib
import json
import ssl
import threading

import aiohttp
from aiohttp import web

from e2e.cluster.ports import free_port


class FaultyApi:
    """Passes everything on, watches as they come, until told otherwise."""

    def __init__(self, plane):
        self._plane = plane
        self._loop = asyncio.new_event_loop()
        self._streams = set()
        self.port = free_port()
        self.status = None
        self.requests = 0
        self.watches = 0
        self.on_write = None

    def kubeconfig(self, path):
        """Return a kubeconfig of the administrator through this proxy."""
        config = json.loads(self._plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path.write_text(json.dumps(config))
        return path

    def fail(self, status):
        """Answer every request with an error, and cut off every watch."""
        self.status = status
        self._break({"type": "ERROR", "object": {"kind": "Status", "code": status}}, end=True)

    def mend(self):
        """Pass everything on again."""
        self.status = None

    def send_to_watches(self, code):
        """Put an ERROR event into every watch, as an API server in trouble does."""
        self._break({"type": "ERROR", "object": {"kind": "Status", "code": code}}, end=False)

    def _break(self, event, *, end):
        async def write():
            for stream in list(self._streams):
                with contextlib.suppress(ConnectionError):
                    if end:
                        stream.force_close()
                        stream._req.transport.close()
                    else:
                        await stream.write(json.dumps(event).encode() + b"\n")

        asyncio.run_coroutine_threadsafe(write(), self._loop).result(60)

    async def _answer(self, request):
        self.requests += 1
        if self.status is not None:
            fault = {"kind": "Status", "code": self.status, "message": "in trouble"}
            return web.json_response(fault, status=self.status)
        trust = ssl.create_default_context(cafile=str(self._plane.certificate_authority))
        kept = ("Authorization", "Content-Type", "Accept")
        headers = {key: request.headers[key] for key in kept if key in request.headers}
        body = await request.read()
        url = f"{self._plane.url}{request.rel_url}"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.request(
                request.method, url, headers=headers, data=body or None, ssl=trust
            ) as answer,
        ):
            if request.method != "GET" and self.on_write is not None:
                self.on_write(request.method, request.path)
            if "watch" not in request.query:
                return web.Response(
                    status=answer.status,
                    body=await answer.read(),
                    content_type=answer.content_type,
                )
            stream = web.StreamResponse(status=answer.status)
            stream.content_type = answer.content_type
            await stream.prepare(request)
            self._streams.add(stream)
            self.watches += 1
            try:
                async for line in answer.content:
                    await stream.write(line)
            finally:
                self._streams.discard(stream)
            return stream

    def serve(self):
        """Run in this thread until stopped."""
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", self.port).start())
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())

    def stop(self):
        """Stop the thread that serves."""
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextlib.contextmanager
def faulty_api(plane):
    """Run a proxy before `plane` for the block."""
    api = FaultyApi(plane)
    thread = threading.Thread(target=api.serve, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.stop()
        thread.join(60)
