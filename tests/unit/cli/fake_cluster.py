"""An API server with one pool, its memory and its routers, for commands that ask a cluster.

It runs in a thread of its own: commands block theirs. Forwarded connections end at real ports.
"""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from aiohttp import WSMsgType, web

from tests.unit.cli.saved import memory, pool

PORT = 9100
CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    "users": [{"name": "u", "user": {"token": "of-alice"}}],
}


class FakeCluster:
    """The objects of the API server, and the requests to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pool: Mapping[str, Any] | None = pool()
        self.memory: Mapping[str, Any] | None = memory()
        self.routers: dict[str, tuple[str, int]] = {}
        self.listed: Sequence[Mapping[str, Any]] | None = None
        self.refused: int | None = None
        self.list_refused: tuple[int, str] | None = None
        self.error: str | None = None
        self.forwarded: list[str] = []
        self.port = 0

    def kubeconfig(self) -> str:
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        return yaml.safe_dump({**CLUSTER, "clusters": [cluster]})

    async def start(self) -> None:
        app = web.Application()
        api = "/apis/tandem-inference.io/v1alpha1/namespaces/team/inferencepools"
        core = "/api/v1/namespaces/team"
        app.router.add_get(f"{api}/{{name}}", self._pool)
        app.router.add_get(api, self._pools)
        app.router.add_get("/apis/tandem-inference.io/v1alpha1/inferencepools", self._pools)
        app.router.add_get(f"{core}/configmaps/chat-memory", self._memory)
        app.router.add_get(f"{core}/pods", self._pods)
        app.router.add_get(f"{core}/pods/{{pod}}/portforward", self._forward)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _pool(self, request: web.Request) -> web.Response:
        if self.pool is None or request.match_info["name"] != "chat":
            return web.json_response({"message": "not found"}, status=404)
        return web.json_response(self.pool)

    async def _pools(self, request: web.Request) -> web.Response:
        assert request.query["resourceVersion"] == "0"
        if self.list_refused is not None:
            status, message = self.list_refused
            return web.json_response({"message": message}, status=status)
        only = [] if self.pool is None else [self.pool]
        return web.json_response({"items": only if self.listed is None else self.listed})

    async def _memory(self, request: web.Request) -> web.Response:
        if self.memory is None:
            return web.json_response({"message": "not found"}, status=404)
        return web.json_response(self.memory)

    async def _pods(self, request: web.Request) -> web.Response:
        wanted = "tandem-inference.io/pool=chat,tandem-inference.io/role=router"
        assert request.query["labelSelector"] == wanted
        items = [
            {"metadata": {"name": name}, "status": {"phase": "Running"}} for name in self.routers
        ]
        return web.json_response({"items": items})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Answer as the API server and a kubelet do together."""
        assert request.headers["Authorization"] == "Bearer of-alice"
        assert request.query["ports"] == str(PORT)
        if self.refused is not None:
            return web.json_response({"message": "no"}, status=self.refused)
        self.forwarded.append(request.match_info["pod"])
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + PORT.to_bytes(2, "little"))
        if self.error is not None:
            await socket.send_bytes(b"\1" + self.error.encode())
            await socket.close()
            return socket
        reader, writer = await asyncio.open_connection(*self.routers[request.match_info["pod"]])
        back = asyncio.create_task(_pump(reader, socket))
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            assert message.data[0] == 0
            writer.write(message.data[1:])
        back.cancel()
        writer.close()
        return socket


async def _pump(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    while data := await reader.read(1000):
        await socket.send_bytes(b"\0" + data)
    await socket.close()


class FakeRouter:
    """A router that tells what it is given, page by page."""

    def __init__(self, *pages: Any) -> None:
        self.pages = pages
        self.asked: list[str] = []
        self.status = 200

    async def start(self) -> tuple[str, int]:
        server = web.Server(self._answer)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self._runner.addresses[0]

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request.path_qs)
        return web.json_response(
            self.pages[(len(self.asked) - 1) % len(self.pages)], status=self.status
        )


@contextlib.contextmanager
def running(cluster: FakeCluster) -> Iterator[FakeCluster]:
    """Run the cluster in its thread for the block."""
    loop = cluster.loop
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    do(cluster, cluster.start())
    try:
        yield cluster
    finally:
        do(cluster, cluster.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def do(cluster: FakeCluster, work: Any) -> Any:
    """Return the result of a coroutine in the cluster's thread."""
    return asyncio.run_coroutine_threadsafe(work, cluster.loop).result(timeout=60)


def page(*rows: Any, now_s: float, **fields: Any) -> dict[str, Any]:
    """Return one page of `/requests`."""
    return {
        "schema": 1,
        "router": "chat-router-0",
        "now_s": now_s,
        "complete_since_s": 0.0,
        "chunk_bytes": 1024,
        "columns": [
            *("arrived_s", "prompt_tokens", "cached_tokens", "output_tokens", "whole", "marks")
        ],
        "rows": list(rows),
        "inside": [],
        "next": None,
        **fields,
    }


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
