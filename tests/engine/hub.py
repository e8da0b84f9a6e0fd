"""A small stand-in for the Hugging Face Hub: one private model, for clients that may read it.

It speaks what huggingface_hub 2.4 asks for a model: its revision, its tree, its files. As on the
real Hub, large files are answered with a redirect to another host, which is asked without token.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

READER = "hf_may-read-the-model"
STRANGER = "hf_of-an-account-without-access"
COMMIT = "a" * 40
BRANCH = "main"
_LARGE = (".safetensors",)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came."""

    path: str
    token: str | None
    of_storage: bool = False


@dataclass(slots=True)
class Hub:
    """The Hub's own host, and beside it the storage of its large files."""

    folder: Path
    repo: str
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    _sent: list[str] = field(default_factory=list)
    _storage_port: int = 0

    @property
    def url(self) -> str:
        """Return the value for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.port}"

    def downloads(self) -> Counter[str]:
        """Return how often the content of each file was sent."""
        return Counter(self._sent)

    def downloaded_bytes(self) -> int:
        """Return how many bytes of files were sent in all."""
        return sum((self.folder / name).stat().st_size for name in self._sent)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Hub"]:
        """Serve on two ports of loopback."""
        hub = web.Application(middlewares=[self._guard])
        hub.router.add_get(f"/api/models/{self.repo}", self._info)
        hub.router.add_get(f"/api/models/{self.repo}/revision/{{revision}}", self._info)
        hub.router.add_get(f"/api/models/{self.repo}/tree/{{revision}}", self._tree)
        hub.router.add_get(f"/api/models/{self.repo}/tree/{{revision}}/{{path:.*}}", self._tree)
        hub.router.add_post(f"/api/models/{self.repo}/paths-info/{{revision}}", self._paths)
        hub.router.add_get(f"/{self.repo}/resolve/{{revision}}/{{path:.*}}", self._resolve)
        storage = web.Application()
        storage.router.add_get("/{path:.*}", self._stored)
        runners = [web.AppRunner(app, shutdown_timeout=0.1) for app in (hub, storage)]
        try:
            for runner in runners:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port, self._storage_port = (runner.addresses[0][1] for runner in runners)
            yield self
        finally:
            for runner in runners:
                await runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or None
        self.asked.append(Asked(request.path, token))
        if token is None:
            return _refusal(401, "RepoNotFound", "Repository not found")
        if token == STRANGER:
            said = f"Access to model {self.repo} is restricted and you are not in the list."
            return _refusal(403, "GatedRepo", said)
        if token != READER:
            return _refusal(401, None, "Invalid credentials in Authorization header")
        if request.match_info.get("revision", BRANCH) not in (BRANCH, COMMIT):
            return _refusal(404, "RevisionNotFound", "Invalid rev id")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return _refusal(404, "RepoNotFound", "Repository not found")

    async def _info(self, request: web.Request) -> web.Response:
        files = [{"rfilename": path.name} for path in self._files()]
        return web.json_response(
            {"id": self.repo, "sha": COMMIT, "private": True, "siblings": files}
        )

    async def _tree(self, request: web.Request) -> web.Response:
        if request.match_info.get("path"):
            return _refusal(404, "EntryNotFound", "there are no folders")
        return web.json_response([_entry(path) for path in self._files()])

    async def _paths(self, request: web.Request) -> web.Response:
        wanted = (await request.post()).getall("paths", [])
        return web.json_response([_entry(path) for path in self._files() if path.name in wanted])

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        path = self.folder / request.match_info["path"]
        if path not in self._files():
            return _refusal(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_entry(path)["oid"]}"'}
        if path.suffix not in _LARGE:
            self._send(request, path.name)
            return web.FileResponse(path, headers=headers)
        headers |= {
            "X-Linked-ETag": f'"{_sha256(path)}"',
            "X-Linked-Size": str(path.stat().st_size),
            "Location": f"http://127.0.0.1:{self._storage_port}/{path.name}",
        }
        return web.Response(status=302, headers=headers)

    async def _stored(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization")
        self.asked.append(Asked(request.path, token, of_storage=True))
        self._send(request, request.match_info["path"])
        return web.FileResponse(self.folder / request.match_info["path"])

    def _send(self, request: web.Request, name: str) -> None:
        # HEAD asks for the size alone.
        if request.method == "GET":
            self._sent.append(name)

    def _files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


def _entry(path: Path) -> dict[str, object]:
    content = path.read_bytes()
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"type": "file", "path": path.name, "size": len(content), "oid": git}
    if path.suffix not in _LARGE:
        return entry
    return entry | {"lfs": {"oid": _sha256(path), "size": len(content), "pointerSize": 134}}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _refusal(status: int, code: str | None, message: str) -> web.Response:
    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    return web.json_response({"error": message}, status=status, headers=headers)
