"""Real engines of one pool on loopback, and its router as a process of its own."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.engines.engine import RealEngine, start
from benchmarks.prefixes_live.prompts import BLOCK_TOKENS
from benchmarks.router.targets import Target, started_router
from tandem_engine.serve import vllm_metrics
from tests.engine.processes import descendants

MODEL = "tiny"
MAX_MODEL_LEN = 2048
MAX_NUM_SEQS = 16
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Counted:
    """Prompt tokens of one prefill engine by its own counters: looked up, found, computed."""

    looked_up: float
    found: float
    computed: float

    def since(self, before: "Counted") -> "Counted":
        """Return what came after `before`."""
        return Counted(
            self.looked_up - before.looked_up,
            self.found - before.found,
            self.computed - before.computed,
        )


@dataclass(frozen=True, slots=True)
class Engines:
    """What all engines are started with."""

    python: str
    model: str
    kv_tokens: int
    folder: Path
    session: aiohttp.ClientSession

    async def started(self, role: str, number: int, *, port: int | None = None) -> RealEngine:
        """Start one of them."""
        return await start(
            self.python,
            f"--role={role}",
            f"--model={self.model}",
            f"--served-model-name={MODEL}",
            "--dtype=float32",
            f"--block-size={BLOCK_TOKENS}",
            f"--max-model-len={MAX_MODEL_LEN}",
            f"--max-num-seqs={MAX_NUM_SEQS}",
            "--cpu-threads=1",
            # On a shared machine an engine may get no core for longer than a pod may take.
            "--not-ready-after-s=120",
            "--not-live-after-s=300",
            f"--extra-arg=--num-gpu-blocks-override={self.kv_tokens // BLOCK_TOKENS}",
            session=self.session,
            log=self.folder / f"{role}-{number}.log",
            port=port,
        )


@dataclass
class LivePool:
    """Prefill engines and a decode engine."""

    engines: Engines
    prefill: list[RealEngine]
    decode: RealEngine

    @contextmanager
    def routed(self, *, by_prefix: bool) -> Iterator[Target]:
        """Run a new router, which knows nothing of the caches."""
        settings = {
            "pool": MODEL,
            "models": [MODEL],
            "slo": {"ttft_s": ANSWER_S, "tpot_s": ANSWER_S},
            "prefix_placement": by_prefix,
            # The operator tells the size of a pod's cache here.
            "decode": {
                "step_s": [0.0, 0.0, 0.0],
                "kv_capacity_tokens": self.engines.kv_tokens,
                "max_num_seqs": MAX_NUM_SEQS,
                "gate": False,
            },
        }
        ports = {
            "prefill": [engine.port for engine in self.prefill],
            "decode": [self.decode.port],
        }
        with started_router(
            self.engines.folder, settings=settings, ports=ports, cores=os.sched_getaffinity(0)
        ) as router:
            yield router

    async def counted(self) -> list[Counted | None]:
        """Return the counters of each prefill engine; `None`: it does not run."""
        return [
            None if engine.process.returncode is not None else _counted(await engine.api.samples())
            for engine in self.prefill
        ]

    async def foreseen(self, router: Target) -> float:
        """Return the prompt tokens that the router took to be in caches, since it began."""
        url = f"http://127.0.0.1:{router.internal_port}/metrics"
        async with self.engines.session.get(url) as answer:
            samples = vllm_metrics.parse(await answer.text())
        return vllm_metrics.total(samples, "tandem_router_foreseen_cached_tokens_total")

    async def kill(self, number: int) -> None:
        """Kill a prefill engine, as a lost node does."""
        process = self.prefill[number].process
        for pid in descendants(process.pid):
            os.kill(pid, signal.SIGKILL)
        await process.wait()

    async def restart(self, number: int) -> None:
        """Start a killed prefill engine where it was; return once it is Ready."""
        port = self.prefill[number].port
        self.prefill[number] = await self.engines.started("prefill", number, port=port)
        await self.prefill[number].ready()


@asynccontextmanager
async def live_pool(engines: Engines, *, pods: int) -> AsyncIterator[LivePool]:
    """Start so many prefill engines and one decode engine; yield them once all are Ready.

    Raises:
        EngineEndedError: one of them ended before it was Ready.
        TimeoutError: one of them took longer than `START_S`.
    """
    async with AsyncExitStack() as held:
        decode = await engines.started("decode", 0)
        held.push_async_callback(decode.end)
        pool = LivePool(engines, [], decode)
        held.push_async_callback(_end, pool.prefill)
        for number in range(pods):
            pool.prefill.append(await engines.started("prefill", number))
        await asyncio.gather(*(engine.ready() for engine in (decode, *pool.prefill)))
        for engine in (decode, *pool.prefill):
            capacity = (await engine.info())["kv_capacity_tokens"]
            if capacity != engines.kv_tokens:
                raise ValueError(f"an engine caches {capacity} tokens, not {engines.kv_tokens}")
        yield pool


async def _end(engines: list[RealEngine]) -> None:
    await asyncio.gather(*(engine.end() for engine in engines))


def _counted(samples: list[vllm_metrics.MetricLine]) -> Counted:
    return Counted(
        vllm_metrics.total(samples, "vllm:prefix_cache_queries_total"),
        vllm_metrics.total(samples, "vllm:prefix_cache_hits_total"),
        vllm_metrics.total(samples, "vllm:prompt_tokens_by_source_total", source="local_compute"),
    )
