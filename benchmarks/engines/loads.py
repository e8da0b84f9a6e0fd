"""Open-loop traffic on one role at a time, and on a pair behind the router."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from benchmarks.engines.engine import Pair, RealEngine, free_ports
from benchmarks.engines.timing import Prefill, Step
from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths, Traffic, plan_requests
from benchmarks.load.record import Record
from tandem_operator.sim.profile import Curve

BUSY_SHARES = (0.5, 0.8)
STREAMS = (16, 48)
PREFILL_PROMPTS = Lengths(200, 3000)
DECODE_PROMPTS = Lengths(64, 128)
DECODE_ANSWERS = Lengths(100, 300)
PAIR_PROMPTS, PAIR_ANSWERS = Lengths(200, 3000), Lengths(50, 150)
PAIR_RPS = 3.0
ROUTER_START_S = 30.0


def prefill_traffic(found: Sequence[Prefill], *, duration_s: float) -> list[Traffic]:
    """Single tokens asked for as often as keeps the engine busy for each of `BUSY_SHARES`."""
    lengths = PREFILL_PROMPTS
    service_s = sum(_service_s(found, u) for u in range(lengths.low, lengths.high + 1)) / (
        lengths.high - lengths.low + 1
    )
    return [
        Traffic(f"prefill-{share:g}", share / service_s, duration_s, lengths, Lengths(1, 1))
        for share in BUSY_SHARES
    ]


def decode_traffic(found: Sequence[Step], *, duration_s: float) -> list[Traffic]:
    """Short prompts, answered as often as keeps about each of `STREAMS` running."""
    shortest = min(step.context_tokens for step in found)
    by_batch = {step.batch: step.seconds for step in found if step.context_tokens == shortest}
    traffic = []
    for streams in STREAMS:
        nearest = min(by_batch, key=lambda batch: abs(batch - streams))
        stay_s = DECODE_ANSWERS.mean * by_batch[nearest]
        name, rate_rps = f"decode-{streams}", streams / stay_s
        traffic.append(Traffic(name, rate_rps, duration_s, DECODE_PROMPTS, DECODE_ANSWERS))
    return traffic


def pair_traffic(*, duration_s: float) -> Traffic:
    """Light traffic of long prompts and answers."""
    return Traffic("pair", PAIR_RPS, duration_s, PAIR_PROMPTS, PAIR_ANSWERS)


async def played(traffic: Traffic, *, url: str, model: str, file: Path) -> list[Record]:
    """Send it, keeping a record of each request."""
    async with LoadGenerator(url=url, model=model, record_path=file) as generator:
        plan = plan_requests(traffic, seed=1)
        return await generator.run(plan, traffic=traffic.name)


@asynccontextmanager
async def routed(pair: Pair, *, model: str, folder: Path) -> AsyncIterator[str]:
    """The router in front of the pair, as a process of its own; yields its address."""
    port, internal_port = free_ports(2)
    settings, endpoints = folder / "router.json", folder / "endpoints.json"
    settings.write_text(
        json.dumps(
            {
                "schema": 1,
                "pool": "measured",
                "models": [model],
                "slo": {"ttft_s": 1.0, "tpot_s": 0.05},
            }
        )
    )
    endpoints.write_text(
        json.dumps([_endpoint(pair.prefill, "prefill"), _endpoint(pair.decode, "decode")])
    )
    with (folder / "router.log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tandem_engine.router"),
            *("--settings", str(settings), "--endpoints", str(endpoints)),
            *("--host", "127.0.0.1", "--port", str(port), "--internal-port", str(internal_port)),
            env=dict(os.environ),
            stdout=output,
            stderr=output,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        await _answers(pair.prefill.api.session, f"{url}/v1/models")
        yield url
    finally:
        process.terminate()
        await process.wait()


def _endpoint(engine: RealEngine, role: str) -> dict[str, object]:
    host, _, port = engine.api.url.removeprefix("http://").partition(":")
    return {"name": role, "role": role, "host": host, "port": int(port)}


async def _answers(session: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(ROUTER_START_S):
        while True:
            try:
                async with session.get(url) as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)


def _service_s(found: Sequence[Prefill], tokens: int) -> float:
    return Curve(tuple((each.prompt_tokens, each.seconds) for each in found)).at(tokens)
