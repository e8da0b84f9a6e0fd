"""Plain vLLM and a pool of the same model, side by side on loopback."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.conformance.calls import MODEL
from benchmarks.engines.engine import Pair, RealEngine, start, until_ready
from e2e.cluster.ports import free_ports
from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import parse_settings

MAX_MODEL_LEN = 2048
_SHAPE = (
    f"--served-model-name={MODEL}",
    "--dtype=float32",
    "--block-size=32",
    f"--max-model-len={MAX_MODEL_LEN}",
    "--max-num-seqs=16",
)
_TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser=hermes")
_PLAIN = (
    "--kv-cache-memory-bytes=67108864",
    "--enforce-eager",
    "--enable-prefix-caching",
    "--enable-prompt-tokens-details",
    "--host=127.0.0.1",
)
_PLAIN_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Servers:
    """The two servers whose answers are compared.

    Attributes:
        pair: the engines behind the pool, where they were started here.
    """

    plain_url: str
    pool_url: str
    pair: Pair | None = None


@asynccontextmanager
async def servers(python: str, model: str, logs: Path) -> AsyncIterator[Servers]:
    """Start both with one model; `python` is an interpreter that has vLLM for a CPU.

    Raises:
        EngineEndedError: one of them ended before it was Ready.
        TimeoutError: one of them took longer than `START_S`.
    """
    async with AsyncExitStack() as held, aiohttp.ClientSession() as session:
        given = (f"--model={model}", *_SHAPE)
        engines = given + tuple(f"--extra-arg={each}" for each in _TOOLS) + ("--cpu-threads=1",)
        plain = await PlainVllm.start(python, *given, *_TOOLS, log=logs / "plain.log")
        held.push_async_callback(plain.end)
        prefill = await start(
            python, "--role=prefill", *engines, session=session, log=logs / "prefill.log"
        )
        held.push_async_callback(prefill.end)
        decode = await start(
            python, "--role=decode", *engines, session=session, log=logs / "decode.log"
        )
        held.push_async_callback(decode.end)
        await asyncio.gather(plain.ready(session), prefill.ready(), decode.ready())
        pool_url = await held.enter_async_context(routed(prefill, decode))
        yield Servers(plain.url, pool_url, Pair(prefill, decode))


@dataclass(frozen=True, slots=True)
class PlainVllm:
    """One vLLM without a role."""

    process: asyncio.subprocess.Process
    url: str
    log: Path

    @classmethod
    async def start(cls, python: str, *arguments: str, log: Path) -> "PlainVllm":
        """Start it on a free port of loopback; its output goes to `log`."""
        (port,) = free_ports(1)
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(python, "-m", "vllm.entrypoints.openai.api_server", *arguments, *_PLAIN),
                f"--port={port}",
                env={**os.environ, **_PLAIN_ENVIRONMENT, "HOME": str(log.parent)},
                stdout=output,
                stderr=output,
            )
        return cls(process, f"http://127.0.0.1:{port}", log)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        """Return once it answers."""
        await until_ready(lambda: _healthy(session, self.url), process=self.process, log=self.log)

    async def end(self) -> None:
        """Stop it."""
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


async def _healthy(session: aiohttp.ClientSession, url: str) -> bool:
    with suppress(aiohttp.ClientError):
        async with session.get(f"{url}/health") as answer:
            return answer.status == 200
    return False


@asynccontextmanager
async def routed(prefill: RealEngine, decode: RealEngine) -> AsyncIterator[str]:
    """Run the router in front of one prefill and one decode engine; yield its URL."""
    router = Router(RouterOptions(host="127.0.0.1", port=0, internal_port=0))
    router.settings.current = parse_settings(
        json.dumps(
            {
                "schema": 1,
                "pool": MODEL,
                "generation": 1,
                "models": [MODEL],
                "max_model_len": MAX_MODEL_LEN,
                "slo": {"ttft_s": 60.0, "tpot_s": 10.0, "attainment": 0.95},
            }
        )
    )
    await router.start()
    for role, engine in ((Role.PREFILL, prefill), (Role.DECODE, decode)):
        router.fleet.upsert(
            Endpoint(name=role.value, role=role, host="127.0.0.1", port=engine.port, ready=True)
        )
    try:
        yield f"http://127.0.0.1:{router.port}"
    finally:
        await router.close()
