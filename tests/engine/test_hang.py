"""Engine cores that stop, and one that only waits, behind vLLM's own living HTTP server.

The tests share the pair and run from the first to the last: each leaves what the next one needs.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.engines.engine import REQUEST_S, START_S, Pair, RealEngine, new_id, start
from tandem_engine.router.openai.kv_fields import KV_PARAMS, REMOTE_DECODE
from tests.engine.frozen import salted
from tests.engine.processes import alive, descendants
from tests.engine.real_engine import SMALL, body_of

NOT_READY_S, NOT_LIVE_S, LEASE_S = 15, 60, 30
BLOCKS_BYTES = 8 * 1024 * 1024
BLOCKS_TOKENS = 4096
# A bound, the looks, and a machine that others use.
PATIENCE_S = 240.0

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 60),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(
    python: str, model: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Pair]:
    folder = tmp_path_factory.mktemp("engines")
    engines = []
    async with aiohttp.ClientSession() as session:
        for role in ("prefill", "decode"):
            (folder / f"{role}.end").touch()
            engines.append(
                await start(
                    python,
                    f"--role={role}",
                    f"--model={model}",
                    *SMALL,
                    f"--kv-lease-s={LEASE_S}",
                    f"--kv-cache-memory-bytes={BLOCKS_BYTES}",
                    f"--not-ready-after-s={NOT_READY_S}",
                    f"--not-live-after-s={NOT_LIVE_S}",
                    f"--termination-log={folder / f'{role}.end'}",
                    session=session,
                    log=folder / f"{role}.log",
                )
            )
        pair = Pair(*engines)
        try:
            await asyncio.gather(pair.prefill.ready(), pair.decode.ready())
            yield pair
        finally:
            for engine in engines:
                await engine.end()


def core_of(engine: RealEngine) -> int:
    """Return the id of the process that computes: vLLM's HTTP server starts it."""
    (core,) = [
        pid
        for pid in descendants(engine.process.pid)
        if b"EngineCore" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return core


@contextlib.contextmanager
def stopped_core(engine: RealEngine) -> Iterator[int]:
    core = core_of(engine)
    os.kill(core, signal.SIGSTOP)
    try:
        yield core
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(core, signal.SIGCONT)


async def answers(engine: RealEngine, path: str, status: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await engine.probe(path) != status:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)


async def test_an_idle_engine_asks_itself_for_tokens_and_stays_ready(pair: Pair) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while ((await pair.decode.info())["probes"] or {"requests": 0})["requests"] < 3:
            assert await pair.decode.probe("/ready") == 200
            await asyncio.sleep(0.5)


async def test_a_core_that_stops_idle_and_goes_on_is_ready_again(pair: Pair) -> None:
    engine = pair.decode

    with stopped_core(engine):
        await answers(engine, "/ready", 503)
        assert await engine.api.health() == 200
        assert await engine.probe("/live") == 200
        assert "it has generated no token" in (await engine.info())["reason"]

    await answers(engine, "/ready", 200)
    assert await engine.tokens(body_of(40))


async def test_a_prefill_engine_whose_blocks_wait_to_be_pulled_is_not_doubted(pair: Pair) -> None:
    engine = pair.prefill
    asked = {"max_tokens": 1, KV_PARAMS: REMOTE_DECODE}
    held = [salted(1900, **asked) for _ in range(BLOCKS_TOKENS // 1900)]
    for body in held:
        await engine.api.complete(body, request_id=new_id(), timeout_s=REQUEST_S)

    waits = asyncio.create_task(
        engine.api.complete(salted(1900, max_tokens=1), request_id=new_id(), timeout_s=REQUEST_S)
    )
    async with asyncio.timeout(PATIENCE_S):
        while not waits.done():
            assert await engine.probe("/ready") == 200
            await asyncio.sleep(0.2)

    await waits
    # It stood still for longer than an engine may that does not say why.
    assert "hangs" not in engine.log.read_text()


@pytest.mark.parametrize(
    ("role", "busy"), [("decode", True), ("prefill", False)], ids=["with work in it", "idle"]
)
async def test_a_core_that_stays_stopped_is_ended_with_the_reason(
    pair: Pair, role: str, busy: bool
) -> None:
    engine: RealEngine = getattr(pair, role)
    stream = None
    if busy:
        before = (await engine.api.counters()).tokens
        body = body_of(40, max_tokens=1900, ignore_eos=True)
        stream = asyncio.create_task(
            engine.api.complete(body, request_id=new_id(), timeout_s=PATIENCE_S)
        )
        async with asyncio.timeout(PATIENCE_S):
            while (await engine.api.counters()).tokens < before + 5:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    with stopped_core(engine) as core:
        await answers(engine, "/ready", 503)
        assert await engine.api.health() == 200
        async with asyncio.timeout(PATIENCE_S):
            assert await engine.process.wait() == 1

    assert not alive([core])
    said = (engine.log.parent / f"{role}.end").read_text()
    assert said.startswith("the engine hangs: it has generated no token since ")
    assert f"last known requests: {int(busy)})" in said
    if stream is not None:
        with pytest.raises(aiohttp.ClientError):
            await stream
