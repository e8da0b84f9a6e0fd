"""One real engine on loopback: started as a pod starts it, looked at, and ended."""

import asyncio
import os
import random
import signal
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tandem_engine.serve import metrics
from tandem_engine.serve.vllm_api import VllmApi
from tests.unit.serve.engine import free_ports

PACKAGES = Path(__file__).parents[2] / "engine"
START_S = 420.0
REQUEST_S = 120.0


@dataclass
class RealEngine:
    process: asyncio.subprocess.Process
    api: VllmApi
    control: str
    log: Path

    async def probe(self, path: str) -> int | None:
        try:
            async with self.api.session.get(f"{self.control}{path}") as answer:
                return answer.status
        except aiohttp.ClientError:
            return None

    async def info(self) -> dict[str, Any]:
        async with self.api.session.get(f"{self.control}/info") as answer:
            body: dict[str, Any] = await answer.json()
            return body

    async def ready(self) -> None:
        async with asyncio.timeout(START_S):
            while await self.probe("/ready") != 200:
                assert self.process.returncode is None, self.log.read_text()[-3000:]
                await asyncio.sleep(0.25)

    async def tokens(self, body: dict[str, Any]) -> list[int]:
        answer = await self.api.complete(body, request_id=new_id(), timeout_s=REQUEST_S)
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens

    async def prompt_tokens(self, source: str) -> float:
        samples = await self.api.samples()
        return metrics.total(samples, "vllm:prompt_tokens_by_source_total", source=source)

    async def end(self) -> None:
        # The second signal ends an engine that still drains.
        for _ in range(2):
            if self.process.returncode is None:
                self.process.send_signal(signal.SIGTERM)
        await self.process.wait()


async def start(
    python: str,
    *arguments: str,
    session: aiohttp.ClientSession,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> RealEngine:
    """Start it as a pod would, with what a test on loopback needs otherwise."""
    port, control_port, side_channel_port = free_ports(3)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            "tandem_engine.serve",
            "serve",
            *arguments,
            "--served-model-name=tiny",
            "--host=127.0.0.1",
            f"--port={port}",
            f"--control-port={control_port}",
            f"--side-channel-port={side_channel_port}",
            "--dtype=float32",
            "--block-size=32",
            "--max-model-len=2048",
            "--max-num-seqs=16",
            "--cpu-threads=1",
            "--kv-lease-s=12",
            "--drain-settle-s=0.5",
            env={
                **os.environ,
                "PYTHONPATH": str(PACKAGES),
                "HOME": str(log.parent),
                **(environment or {}),
            },
            stdout=output,
            stderr=output,
        )
    api = VllmApi(session, f"http://127.0.0.1:{port}")
    return RealEngine(process, api, f"http://127.0.0.1:{control_port}", log)


def body_of(length: int, **more: Any) -> dict[str, Any]:
    draw = random.Random(length)
    return {
        "model": "tiny",
        "prompt": [draw.randrange(300, 1000) for _ in range(length)],
        "max_tokens": 24,
        "temperature": 0,
        "return_token_ids": True,
        **more,
    }


def new_id() -> str:
    return str(uuid.uuid4())
