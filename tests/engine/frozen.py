"""A decode engine that stops, and a prefill engine that has other uses for its blocks meanwhile."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

from benchmarks.engines.engine import REQUEST_S, RealEngine, new_id
from tests.engine.processes import descendants
from tests.engine.real_engine import body_of


@contextlib.contextmanager
def stopped(engine: RealEngine) -> Iterator[None]:
    """Stop all of vLLM, but not its launcher: nothing answers, and nothing is refused."""
    pids = [pid for pid in descendants(engine.process.pid) if pid != engine.process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def salted(length: int, **more: Any) -> dict[str, Any]:
    """Return a prompt that shares no block with any other, not even with itself."""
    return body_of(length, cache_salt=new_id(), **more)


async def overwrite(engine: RealEngine, *, capacity_tokens: int) -> None:
    """Have other prompts computed until every block that was free holds something else."""
    length = 1900
    for _ in range(capacity_tokens // length + 2):
        await engine.api.complete(
            salted(length, max_tokens=1), request_id=new_id(), timeout_s=REQUEST_S
        )


async def expired(engine: RealEngine) -> float:
    """Return the count of leases so far that ran out before their blocks were read."""
    return await counted(engine, "vllm:nixl_num_kv_expired_reqs_total")


async def counted(engine: RealEngine, name: str) -> float:
    """Return the sum of a counter's samples; without samples, zero."""
    return sum(sample.value for sample in await engine.api.samples() if sample.name == name)


async def settled(engine: RealEngine) -> None:
    """Return once it holds no request and no block."""
    async with asyncio.timeout(REQUEST_S):
        while not (await engine.api.load()).idle:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
