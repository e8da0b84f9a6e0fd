"""A router with fake engines on loopback, and a client for it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
from multidict import CIMultiDictProxy

from tandem_engine.router.app import Router
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import parse_settings
from tests.unit.router.fake_engine import FakeEngine

PATIENCE_S = 60.0
"""A bound of a hang, and far more than a busy machine needs."""


def decode_pace(**changes: Any) -> dict[str, Any]:
    """Return a decode pod whose step takes 4 ms and 1 ms more per stream."""
    return {
        "step_s": [0.004, 0.001, 0.0],
        "kv_capacity_tokens": 100_000,
        "max_num_seqs": 64,
        **changes,
    }


def settings_document(**changes: Any) -> dict[str, Any]:
    """Return a settings document with short deadlines; `changes` go into its sections."""
    document: dict[str, Any] = {
        "schema": 1,
        "pool": "tiny",
        "generation": 1,
        "models": ["tiny"],
        "max_model_len": 2048,
        "slo": {"ttft_s": 5.0, "tpot_s": 5.0, "attainment": 0.95},
        "limits": {},
        "timeouts": {
            "connect_s": 2.0,
            "prefill_s": 5.0,
            "first_token_s": 10.0,
            "idle_s": 5.0,
            "request_s": 20.0,
        },
    }
    for key, value in changes.items():
        if isinstance(value, dict):
            document[key] = {**document.get(key, {}), **value}
        else:
            document[key] = value
    return document


class Pool:
    """Router, engines, client."""

    def __init__(self, router: Router, client: aiohttp.ClientSession) -> None:
        self.router = router
        self.client = client
        self.engines: dict[str, FakeEngine] = {}
        self.revisions: dict[str, str] = {}
        self.held: list[socket.socket] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.router.port}"

    def configure(self, **changes: Any) -> None:
        self.router.settings.current = parse_settings(json.dumps(settings_document(**changes)))
        self.router.fleet.announce()

    async def add(self, name: str, *, revision: str = "a") -> FakeEngine:
        engine = await FakeEngine(name).start()
        self.engines[name], self.revisions[name] = engine, revision
        self.show(name)
        return engine

    def show(self, name: str, *, ready: bool = True, leaving: bool = False) -> None:
        """Let the router see the pod in this state."""
        self.router.fleet.upsert(
            Endpoint(
                name=name,
                role=Role.PREFILL if name.startswith("p") else Role.DECODE,
                host="127.0.0.1",
                port=self.engines[name].port,
                revision=self.revisions[name],
                ready=ready,
                leaving=leaving,
            )
        )

    async def add_dead(self, name: str, *, revision: str = "a") -> None:
        """Add a pod whose port refuses connections, and which no other engine gets."""
        engine = await self.add(name, revision=revision)
        await engine.stop()
        held = socket.socket()
        held.bind(("127.0.0.1", engine.port))
        self.held.append(held)

    async def post(
        self, body: Any, path: str = "/v1/completions", **options: Any
    ) -> tuple[int, Any, CIMultiDictProxy[str]]:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(self.url + path, data=payload, **options) as response:
            text = await response.read()
            return response.status, json.loads(text), response.headers

    async def complete(self, prompt: Any = "one two three", **fields: Any) -> tuple[int, Any]:
        status, answer, _ = await self.post({"model": "tiny", "prompt": prompt, **fields})
        return status, answer

    async def stream(
        self, prompt: Any = "one two three", *, path: str = "/v1/completions", **fields: Any
    ) -> list[Any]:
        """Return all events of a streamed completion."""
        body = {"model": "tiny", "stream": True, **fields}
        if path.endswith("chat/completions"):
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        async with self.client.post(self.url + path, json=body) as response:
            assert response.status == 200, await response.text()
            return [event async for event in events(response)]

    async def probe(self, path: str) -> int:
        async with self.client.get(self.url + path) as response:
            return response.status

    async def arrivals(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.router.internal_port}/arrivals"
        async with self.client.get(url) as response:
            return await response.json()

    async def requests(self, after: int | str = 0) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.router.internal_port}/requests?after={after}"
        async with self.client.get(url) as response:
            return {"status": response.status, **await response.json()}

    async def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.router.internal_port}/metrics"
        async with self.client.get(url) as response:
            return await response.text()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.router.accounts.metrics.registry.get_sample_value(name, labels)

    async def idle(self) -> None:
        """Wait until the router holds no request and has recorded every request."""
        async with asyncio.timeout(PATIENCE_S):
            await self.router.clients.drained()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something the router does by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the router signals to nobody
            await asyncio.sleep(0.002)


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    async for line in response.content:
        if line.startswith(b"data: "):
            payload = line[6:].strip()
            yield "[DONE]" if payload == b"[DONE]" else json.loads(payload)
