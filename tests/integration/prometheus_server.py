"""A real Prometheus on loopback that scrapes pages of a test, and a gateway with TLS before it."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from e2e.cluster.gobuild import PROMETHEUS, go_problem, is_built
from e2e.prometheus_process import prometheus_url


@contextlib.contextmanager
def running(folder: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Run a Prometheus with a configuration; yield its URL."""
    if not is_built(PROMETHEUS) and (problem := go_problem()):
        pytest.skip(problem)
    with prometheus_url(folder, config) as url:
        yield url


def scrape_config(ports: Mapping[str, int], *, namespace: str, **more: Any) -> dict[str, Any]:
    """Return each second a scrape of each pod's page, with the labels that a PodMonitor gives."""
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": namespace, "pod": pod}}
        for pod, port in ports.items()
    ]
    job = {"job_name": "pods", "static_configs": targets, **more}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [job],
    }


@dataclass(slots=True)
class Gateway:
    """A gateway before a Prometheus: it wants TLS, a token and a tenant; or it redirects all."""

    target: str
    token: str
    tenant: str
    port: int = 0
    redirect: str | None = None
    refused: list[int] = field(default_factory=list)
    passed: int = 0

    async def answer(self, request: web.Request) -> web.Response:
        if self.redirect is not None:
            raise web.HTTPTemporaryRedirect(self.redirect)
        status = self._refusal(request.headers)
        if status is not None:
            self.refused.append(status)
            return web.Response(status=status)
        self.passed += 1
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.target}{request.path_qs}") as answer,
        ):
            return web.Response(
                body=await answer.read(), status=answer.status, content_type=answer.content_type
            )

    def _refusal(self, headers: Mapping[str, str]) -> int | None:
        if headers.get("Authorization") != f"Bearer {self.token}":
            return 401
        return None if headers.get("X-Scope-OrgID") == self.tenant else 403


@contextlib.asynccontextmanager
async def gateway(made: Gateway, certificate: Sequence[Path]) -> AsyncIterator[Gateway]:
    """Serve one on loopback with a certificate and its key."""
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()
