"""The router as a process: its command line, its end, and what it leaves in its logs."""

import asyncio
import json
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from e2e.cluster.ports import free_ports
from tandem_contracts.logs import formatter
from tandem_engine.router.app import RouterOptions
from tandem_engine.router.entry import parser, run
from tandem_engine.router.http.connections import listen
from tests.unit.router.fake_engine import FakeEngine, Script
from tests.unit.router.pool import Pool, events, until
from tests.unit.router.process import serving, start

PATIENCE_S = 30.0
"""Less than the minute for which a frozen engine is silent."""
STREAM = {"model": "tiny", "prompt": "x", "stream": True}


async def test_sigterm_is_heeded_while_the_router_is_still_being_loaded(tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)"
    )
    process = await start("--pool", "a", environment={"PYTHONPATH": str(tmp_path)})

    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait() == 0


async def test_the_router_serves_on_uvloop(tmp_path: Path) -> None:
    process, started = await serving(tmp_path)
    process.terminate()
    await process.wait()

    assert started["event_loop"] == "uvloop"


async def test_sigterm_lets_a_running_stream_finish_and_then_ends_the_process(
    tmp_path: Path,
) -> None:
    engine = await FakeEngine("d0").start()
    gate = engine.script.hold = asyncio.Event()
    process, started = await serving(tmp_path, engine)
    assert process.stderr is not None
    port = started["port"]
    async with aiohttp.ClientSession() as client:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(PATIENCE_S):
            running = asyncio.create_task(client.post(url + "/v1/completions", json=STREAM))
            await engine.wait_seen(1)
            # Its connection is kept: new ones are taken for a moment only.
            async with client.get(url + "/ready") as response:
                assert response.status == 200
            os.kill(process.pid, signal.SIGTERM)
            while json.loads(await process.stderr.readline())["message"] != "draining":
                pass
            async with client.get(url + "/ready") as response:
                assert response.status == 503

            gate.set()
            async with await running as response:
                answer = [event async for event in events(response)]

            assert answer[-1] == "[DONE]"
            assert await process.wait() == 0
    await engine.stop()


@pytest.fixture
def root_log() -> Iterator[None]:
    """Puts the root logger back as it was: the command configures it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("root_log")
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--settings", "/nowhere", "--endpoints", "/nowhere"], "/nowhere"),
        (["--pool", "a", "--namespace", "b"], "KUBERNETES_SERVICE_HOST"),
    ],
)
def test_a_router_that_cannot_start_ends_with_a_sentence(
    arguments: list[str],
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    with pytest.raises(SystemExit) as ended:
        run(arguments)

    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert word in json.loads(line)["why"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--pool"),
        (["--settings", "x"], "used together"),
        (["--pool", "a", "--settings", "x", "--endpoints", "y"], "either"),
    ],
)
def test_a_wrong_command_line_is_refused(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(arguments)

    assert word in capsys.readouterr().err


def test_the_environment_can_name_the_timing_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_TIMING_RECORD", "/tmp/timings.jsonl")

    assert parser().parse_args([]).timing_record == Path("/tmp/timings.jsonl")


def test_help_shows_both_ways_to_start() -> None:
    text = parser().format_help()

    assert "tandem-router --pool chat --namespace team-a" in text
    assert "--settings router.json --endpoints endpoints.json" in text


async def test_while_draining_new_requests_are_served_until_the_listener_closes(
    pool: Pool,
) -> None:
    gate = pool.engines["d0"].script.hold = asyncio.Event()
    running = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(1)
    drain = asyncio.create_task(pool.router.drain())
    await asyncio.sleep(0)
    async with pool.client.get(pool.url + "/ready") as response:
        assert response.status == 503
    second = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(2)
    gate.set()

    assert (await running)[-1] == (await second)[-1] == "[DONE]"
    await asyncio.wait_for(drain, PATIENCE_S)
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as other:
            await other.get(pool.url + "/health")


async def test_at_the_drain_bound_a_running_stream_is_told_why_it_ends(pool: Pool) -> None:
    pool.engines["d0"].script = Script(freeze_after=1)

    async with pool.client.post(pool.url + "/v1/completions", json=STREAM) as response:
        received = events(response)
        assert (await anext(received))["choices"]
        await asyncio.wait_for(pool.router.drain(), PATIENCE_S)
        rest = [event async for event in received]

    assert rest[0]["error"]["code"] == "draining"
    assert rest[-1] == "[DONE]"
    await asyncio.wait_for(pool.engines["d0"].seen[0].cancelled.wait(), PATIENCE_S)


async def test_a_draining_router_without_decode_pods_lets_no_request_wait_for_one(
    bare_pool: Pool,
) -> None:
    await bare_pool.add("p0")
    queued = asyncio.create_task(bare_pool.complete())
    await until(lambda: bare_pool.router.waiting.requests == 1)

    await asyncio.wait_for(bare_pool.router.drain(), PATIENCE_S)

    status, answer = await queued
    assert (status, answer["error"]["code"]) == (503, "no_decode_pod")


async def test_nor_does_it_after_a_prefill_whose_decode_pod_left(pool: Pool) -> None:
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    prefilling = asyncio.create_task(pool.complete())
    await pool.engines["p0"].wait_seen(1)
    pool.show("d0", leaving=True)
    drain = asyncio.create_task(pool.router.drain())
    await until(lambda: pool.router.fleet.deserted)
    gate.set()

    status, answer = await prefilling
    assert (status, answer["error"]["code"]) == (503, "no_decode_pod")
    await asyncio.wait_for(drain, PATIENCE_S)


SECRETS = ("Prompt-Secret", "Bearer-Secret", "Id-Secret", " t0", "Cookie-Secret")


async def test_no_log_line_holds_content_or_headers(
    pool: Pool, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    pool.configure(timeouts={"idle_s": 0.1, "first_token_s": 0.5, "prefill_s": 0.2})
    headers = {
        "Authorization": "Bearer-Secret",
        "X-Request-Id": "Id-Secret",
        "Cookie": "a=Cookie-Secret",
    }
    scripts = [
        Script(),
        Script(statuses=[500, 500]),
        Script(statuses=[400], error={"error": {"message": "Prompt-Secret is bad"}}),
        Script(cut_after=2),
        Script(freeze_after=1),
        Script(garbage_after=1),
        Script(error_event_after=1),
        Script(freeze=True),
    ]
    for script in scripts:
        for stream in (True, False):
            for name in ("p0", "d0"):
                pool.engines[name].script = Script(**vars(script))
                pool.show(name)
            body = {"model": "tiny", "prompt": "Prompt-Secret", "stream": stream}
            url = pool.url + "/v1/completions"
            async with pool.client.post(url, json=body, headers=headers) as response:
                await response.read()
    bad = b'{"model": "tiny", "prompt": "Prompt-Secret"'
    await pool.post(bad, headers=headers)
    await pool.post({"model": "Prompt-Secret", "prompt": "x"}, headers=headers)
    async with pool.client.get(pool.url + "/Prompt-Secret", headers=headers) as response:
        assert response.status == 404
    await pool.idle()

    own = [record for record in caplog.records if record.name.startswith(("tandem", "aiohttp"))]
    assert len(own) > 5
    text = "\n".join(formatter().format(record) for record in own)
    assert [secret for secret in SECRETS if secret in text] == []
    record = (tmp_path / "timings.jsonl").read_text()
    assert [secret for secret in SECRETS if secret in record] == ["Id-Secret"]


@pytest.mark.parametrize("bare_pool", [{"drain_timeout_s": 60.0}], indirect=True)
async def test_a_router_that_is_read_ends_when_its_last_requests_were_read(pool: Pool) -> None:
    await pool.arrivals()
    drain = asyncio.create_task(pool.router.drain())
    await asyncio.sleep(0.3)
    assert not drain.done()

    await pool.arrivals()

    await asyncio.wait_for(drain, PATIENCE_S)


async def test_a_router_whose_arrivals_are_not_read_any_more_ends_at_the_drain_bound(
    pool: Pool,
) -> None:
    await pool.arrivals()

    await asyncio.wait_for(pool.router.drain(), PATIENCE_S)


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
async def test_clients_come_by_ipv4_and_ipv6() -> None:
    async def hello(_: web.BaseRequest) -> web.Response:
        return web.Response(text="hello")

    [port] = free_ports(1)
    runner, _ = await listen(hello, host=RouterOptions().host, port=port, settings=lambda: None)

    async with aiohttp.ClientSession() as session:
        for address in ("127.0.0.1", "[::1]"):
            async with session.get(f"http://{address}:{port}/") as answer:
                assert await answer.text() == "hello"
    await runner.cleanup()


async def test_two_routers_with_the_pools_key_tell_that_the_same_prompt_begins_alike(
    tmp_path: Path,
) -> None:
    engine = await FakeEngine("d0").start()
    told = []
    async with aiohttp.ClientSession() as client:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            process, started = await serving(
                tmp_path / name, engine, environment={"TANDEM_ENGINE_KEY": "of the pool"}
            )
            ask = {"model": "tiny", "prompt": [5] * 1500}
            url = f"http://127.0.0.1:{started['port']}/v1/completions"
            async with client.post(url, json=ask) as response:
                assert response.status == 200
            url = f"http://127.0.0.1:{started['internal_port']}/requests"
            async with client.get(url) as response:
                told.append(await response.json())
            process.kill()
            await process.wait()
    await engine.stop()

    [[_, prompt_tokens, _, output_tokens, whole, marks]] = told[0]["rows"]
    assert (prompt_tokens, output_tokens, whole) == (1500, 4, True)
    assert marks
    assert told[1]["rows"][0][5] == marks
