"""The example for Envoy, run with a real Envoy in front of real routers of two pools."""

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import yaml

from e2e.cluster import envoy
from e2e.cluster.ports import free_port
from tests.unit.router.fake_engine import FakeEngine
from tests.unit.router.pool import settings_document
from tests.unit.router.process import start

pytestmark = pytest.mark.timeout(600)

EXAMPLE = Path("manifests/gateway/envoy.yaml")
HOST = "llm.example.com"
SEARCH, SUPPORT = "SEARCH-KEY", "SUPPORT-KEY"
LIMIT = 6
REQUEST = {"model": "tiny", "prompt": "x"}


@dataclass
class Served:
    """Two pools behind one host; only the second knows the model `small`."""

    client: aiohttp.ClientSession
    url: str
    first: FakeEngine
    second: FakeEngine

    def post(self, body=REQUEST, *, key=SEARCH, host=HOST, path="/v1/completions", **headers):
        given = {"Host": host, **({"Authorization": f"Bearer {key}"} if key else {}), **headers}
        return self.client.post(f"{self.url}{path}", json=body, headers=given)

    async def status(self, *given, **options):
        async with self.post(*given, **options) as answer:
            await answer.read()
            return answer.status


def certificate(folder):
    """Return a certificate for the host, signed by itself."""
    key, made = folder / "tls.key", folder / "tls.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={HOST}"),
            *("-addext", f"subjectAltName=DNS:{HOST}", "-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made


def example(folder, *, port, routers):
    """Return the example with the addresses of this machine, and a smaller limit."""
    document = yaml.safe_load(EXAMPLE.read_text())
    listener = document["static_resources"]["listeners"][0]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": port}
    for cluster, router in zip(document["static_resources"]["clusters"], routers, strict=True):
        cluster["type"] = "STATIC"
        (found,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        found["endpoint"]["address"]["socket_address"] = {
            "address": "127.0.0.1",
            "port_value": router,
        }
    text = json.dumps(document).replace("/etc/envoy/tls", str(folder))
    text = text.replace('"max_tokens": 60', f'"max_tokens": {LIMIT}')
    text = text.replace('"fill_interval": "1s"}}]', '"fill_interval": "3600s"}}]')
    path = folder / "envoy.json"
    path.write_text(text.replace("llama-3.1-8b", "small"))
    return path


@contextlib.asynccontextmanager
async def running_router(folder, engine, *, models):
    folder.mkdir()
    endpoints = [{"name": "d", "role": "decode", "host": "127.0.0.1", "port": engine.port}]
    files = {"settings": settings_document(models=models), "endpoints": endpoints}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    process = await start(
        *("--settings", str(folder / "settings"), "--endpoints", str(folder / "endpoints")),
        *("--host", "127.0.0.1", "--port", "0", "--internal-port", "0", "--drain-quiet-s", "0.1"),
    )
    line = {}
    while "port" not in line:
        line = json.loads(await process.stderr.readline())
    try:
        yield line["port"]
    finally:
        process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def running_envoy(path):
    log = path.with_name("envoy.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *(str(envoy.program()), "-c", str(path), "--use-dynamic-base-id", "--concurrency", "1"),
        *("--log-level", "warning"),
        stdout=log,
        stderr=log,
        env={key: value for key, value in os.environ.items() if not key.endswith("_proxy")},
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()
        log.close()


async def until_it_listens(port):
    async with asyncio.timeout(180):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


@pytest.fixture
async def served(tmp_path):
    made, port = certificate(tmp_path), free_port()
    first, second = await FakeEngine("first").start(), await FakeEngine("second").start()
    async with contextlib.AsyncExitStack() as stack:
        routers = [
            await stack.enter_async_context(
                running_router(tmp_path / "b", second, models=["tiny", "small"])
            ),
            await stack.enter_async_context(running_router(tmp_path / "a", first, models=["tiny"])),
        ]
        path = example(tmp_path, port=port, routers=routers)
        await stack.enter_async_context(running_envoy(path))
        await until_it_listens(port)
        trusted = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=made))
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=trusted))
        # The certificate is checked against the host's name, at the address of this machine.
        trusted._resolve_host = _here(port)
        yield Served(client, f"https://{HOST}:{port}", first, second)
    await first.stop()
    await second.stop()


def _here(port):
    async def resolve(host, *_, **__):
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": port,
                "family": 2,
                "proto": 0,
                "flags": 0,
            }
        ]

    return resolve


async def test_a_token_reaches_the_client_before_the_engine_has_the_next(served):
    served.first.script.freeze_after = 2

    async with served.post({**REQUEST, "stream": True}) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        async with asyncio.timeout(60):
            got = [await answer.content.readuntil(b"\n\n") for _ in range(2)]

    assert all(event.startswith(b"data: {") for event in got)
    # The client is gone, and so is its place in the engine.
    async with asyncio.timeout(60):
        await served.first.seen[0].cancelled.wait()


async def test_only_a_client_with_a_key_is_served(served):
    assert await served.status() == 200
    assert await served.status(key=SUPPORT) == 200
    assert await served.status(key=None) == 401
    assert await served.status(key="GUESSED-KEY") == 401
    assert len(served.first.seen) == 2


async def test_one_client_that_sends_too_much_gets_429_and_the_other_is_served(served):
    statuses = [await served.status() for _ in range(LIMIT + 2)]

    assert statuses == [200] * LIMIT + [429] * 2
    assert await served.status(key=SUPPORT) == 200


async def test_the_model_of_the_body_chooses_the_pool_and_a_clients_header_does_not(served):
    small = {**REQUEST, "model": "small"}
    long = {**small, "prompt": "word " * 200_000}

    assert await served.status(small) == 200
    assert await served.status() == 200
    assert await served.status(**{"X-Gateway-Model-Name": "small"}) == 200
    # Nested, and in a text: neither is the model that the request names.
    tricky = {**REQUEST, "prompt": '"model": "small"', "metadata": {"model": "small"}}
    assert await served.status(tricky) == 200
    assert (len(served.first.seen), len(served.second.seen)) == (3, 1)
    assert await served.status(long) == 200
    assert (len(served.first.seen), len(served.second.seen)) == (3, 2)


async def test_a_body_beyond_the_bound_is_refused_before_it_reaches_a_pool(served):
    assert await served.status({**REQUEST, "prompt": "x" * 5_000_000}) == 413
    assert served.first.seen == served.second.seen == []


async def test_a_model_that_no_pool_has_is_told_by_the_pool_without_a_header(served):
    async with served.post({**REQUEST, "model": "unheard-of"}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "model_not_found")


async def test_nothing_but_the_api_is_reached(served):
    for path in ("/metrics", "/health", "/v1x", "/killers"):
        assert await served.status(path=path, key=SUPPORT) == 404
    assert await served.status(host="other.example.com") == 404
    headers = {"Host": HOST, "Authorization": f"Bearer {SUPPORT}"}
    async with served.client.get(f"{served.url}/v1/models", headers=headers) as answer:
        assert [each["id"] for each in (await answer.json())["data"]] == ["tiny"]
