"""A small stand-in for S3: one bucket with the files of one folder, for clients with its key.

It speaks what boto3 and the Run:ai Model Streamer ask of a bucket by path: its list of objects, and
objects whole or in ranges. It checks no signature, only the key that a request names.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from aiohttp import web
from aiohttp.typedefs import Handler

KEY_ID, SECRET = "AKIAREADER", "secret-of-the-reader"
_SIGNED_BY = re.compile(r"Credential=([^/]+)/")


@dataclass(slots=True)
class Bucket:
    """One bucket, whose objects are the files of a folder below a prefix."""

    folder: Path
    name: str
    prefix: str
    port: int = 0
    _sent: Counter[str] = field(default_factory=Counter)

    @property
    def uri(self) -> str:
        """Return the URI by which a pool names it."""
        return f"s3://{self.name}/{self.prefix}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that a pod template needs for a bucket that is not of AWS."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
        }

    def sent(self, name: str) -> int:
        """Return how many bytes of a file were sent."""
        return self._sent[name]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Bucket"]:
        """Serve on a port of loopback."""
        app = web.Application(middlewares=[_guard])
        app.router.add_get("/{bucket}", self._list)
        app.router.add_get("/{bucket}/", self._list)
        app.router.add_get("/{bucket}/{key:.+}", self._object)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        try:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        self._of_this(request)
        prefix = request.query.get("prefix", "")
        found = [
            f"<Contents><Key>{escape(key)}</Key><Size>{path.stat().st_size}</Size></Contents>"
            for path in sorted(self.folder.iterdir())
            if (key := f"{self.prefix}/{path.name}").startswith(prefix)
        ]
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false'
            f"</IsTruncated><KeyCount>{len(found)}</KeyCount>{''.join(found)}</ListBucketResult>"
        )
        return web.Response(text=text, content_type="application/xml")

    async def _object(self, request: web.Request) -> web.Response:
        self._of_this(request)
        path = self.folder / request.match_info["key"].removeprefix(f"{self.prefix}/")
        if path.parent != self.folder or not path.is_file():
            raise _refusal(404, "NoSuchKey")
        content = path.read_bytes()
        headers = {"ETag": f'"{len(content)}"', "Accept-Ranges": "bytes"}
        part = request.http_range
        body = content[part]
        status = 200
        if request.headers.get("Range"):
            first = part.start or 0
            headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{len(content)}"
            status = 206
        if request.method == "GET":
            self._sent[path.name] += len(body)
        return web.Response(
            body=body, status=status, headers=headers, content_type="binary/octet-stream"
        )

    def _of_this(self, request: web.Request) -> None:
        if request.match_info["bucket"] != self.name:
            raise _refusal(404, "NoSuchBucket")


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    signed = _SIGNED_BY.search(request.headers.get("Authorization", ""))
    if signed is None:
        raise _refusal(403, "AccessDenied")
    if signed[1] != KEY_ID:
        raise _refusal(403, "InvalidAccessKeyId")
    return await handler(request)


def _refusal(status: int, code: str) -> web.HTTPException:
    text = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
    kind = web.HTTPNotFound if status == 404 else web.HTTPForbidden
    return kind(text=text, content_type="application/xml")
