"""A scripted Kubernetes API server: lists and watches of two kinds, with all their ways to end."""

import asyncio
import json
from typing import Any

from aiohttp import web

KINDS = ("pods", "configmaps", "replicasets")


def pod(
    name: str,
    *,
    ready: bool = True,
    leaving: bool = False,
    owner: str | None = "",
    **labels: str,
) -> dict[str, Any]:
    """Return a pod of the ReplicaSet with the UID `owner`; empty: its role's, `None`: none."""
    role = "prefill" if name.startswith("p") else "decode"
    owner = f"{role}-set" if owner == "" else owner
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {
            "tandem-inference.io/pool": "tiny",
            "tandem-inference.io/role": role,
            "tandem-inference.io/revision": "a",
            **labels,
        },
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {"kind": "ReplicaSet", "name": f"tiny-{role}-7d9", "uid": owner, "controller": True}
        ]
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def replica_set(role: str, *, uid: str = "", deployment: str = "") -> dict[str, Any]:
    """Return a ReplicaSet of the pool's Deployment of a role, or of another one."""
    owner = {"kind": "Deployment", "name": deployment or f"tiny-{role}", "controller": True}
    uid = uid or f"{role}-set"
    return {"metadata": {"name": f"tiny-{uid}", "uid": uid, "ownerReferences": [owner]}}


def config_map(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "tiny-router"}, "data": {"router.json": text}}


class FakeApiServer:
    """Holds objects by kind; `put` and `delete` reach every open watch."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS}
        self.forbidden: set[str] = set()
        self.tokens: list[str] = []
        self.queries: list[tuple[str, dict[str, str]]] = []
        self.away = False
        self.gone_at: int | None = None
        self._watches: dict[str, list[asyncio.Queue[dict[str, Any] | None]]] = {
            kind: [] for kind in KINDS
        }
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> "FakeApiServer":
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/team-a/{kind}", self._get)
        app.router.add_get("/apis/apps/v1/namespaces/team-a/{kind}", self._get)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        self.end_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    def put(self, kind: str, item: dict[str, Any]) -> None:
        name = item["metadata"]["name"]
        known = name in self.objects[kind]
        self._store(kind, name, item)
        self._tell(kind, "MODIFIED" if known else "ADDED", item)

    def delete(self, kind: str, name: str) -> None:
        item = self.objects[kind].pop(name)
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", item)

    def put_unseen(self, kind: str, item: dict[str, Any]) -> None:
        """Change an object without an event to any watch."""
        self._store(kind, item["metadata"]["name"], item)

    def bookmark(self, kind: str) -> None:
        self.version += 1
        self._tell(kind, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def fail_watches(self, kind: str, code: int) -> None:
        self._tell(kind, "ERROR", {"code": code, "metadata": {}})

    def end_watches(self) -> None:
        for watches in self._watches.values():
            for queue in watches:
                queue.put_nowait(None)

    def watching(self) -> bool:
        return all(self._watches.values())

    def _store(self, kind: str, name: str, item: dict[str, Any]) -> None:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind][name] = item

    def _tell(self, kind: str, event: str, item: dict[str, Any]) -> None:
        for queue in self._watches[kind]:
            queue.put_nowait({"type": event, "object": item})

    async def _get(self, request: web.Request) -> web.StreamResponse:
        kind = request.match_info["kind"]
        self.tokens.append(request.headers.get("Authorization", ""))
        self.queries.append((kind, dict(request.query)))
        if self.away:
            return web.Response(status=503)
        if kind in self.forbidden:
            return web.Response(status=403)
        if "watch" not in request.query:
            return web.json_response(
                {
                    "metadata": {"resourceVersion": str(self.version)},
                    "items": list(self.objects[kind].values()),
                }
            )
        if self.gone_at is not None and int(request.query["resourceVersion"]) < self.gone_at:
            return web.Response(status=410)
        return await self._watch(request, kind)

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        response = web.StreamResponse()
        await response.prepare(request)
        self._watches[kind].append(queue)
        try:
            while (event := await queue.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                await response.write(line[:20])
                await response.write(line[20:])
        finally:
            self._watches[kind].remove(queue)
        return response
