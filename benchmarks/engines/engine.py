"""One real engine on loopback: started as a pod starts it, looked at, and ended."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from e2e.cluster.ports import free_ports
from tandem_engine.router.openai.kv_fields import KV_PARAMS, REMOTE_DECODE
from tandem_engine.serve import vllm_metrics
from tandem_engine.serve.vllm_api import VllmApi

PACKAGES = [str(Path(__file__).parents[2] / part) for part in ("contracts", "engine")]
START_S = 420.0
REQUEST_S = 120.0
_LAST_WORDS = 3000


class EngineEndedError(Exception):
    """An engine ended before it was Ready; the text is the end of its log."""


async def until_ready(
    is_ready: Callable[[], Awaitable[bool]], *, process: asyncio.subprocess.Process, log: Path
) -> None:
    """Return once a server is Ready.

    Raises:
        EngineEndedError: it ended instead.
        TimeoutError: it took longer than `START_S`.
    """
    async with asyncio.timeout(START_S):
        while not await is_ready():
            if process.returncode is not None:
                raise EngineEndedError(_last_words(log))
            await asyncio.sleep(0.25)


def _last_words(log: Path) -> str:
    return log.read_text()[-_LAST_WORDS:]


@dataclass
class RealEngine:
    """A launcher with its vLLM, by its two ports."""

    process: asyncio.subprocess.Process
    api: VllmApi
    control: str
    log: Path

    @property
    def port(self) -> int:
        """Return the port of vLLM's own API."""
        return int(self.api.url.rpartition(":")[2])

    async def probe(self, path: str) -> int | None:
        """Return the status of a probe; `None` where nothing answers."""
        try:
            async with self.api.session.get(f"{self.control}{path}") as answer:
                return answer.status
        except aiohttp.ClientError:
            return None

    async def info(self) -> dict[str, Any]:
        """Return what the engine tells the operator."""
        async with self.api.session.get(f"{self.control}/info") as answer:
            body: dict[str, Any] = await answer.json()
            return body

    async def ready(self) -> None:
        """Return once it is Ready.

        Raises:
            EngineEndedError: it ended instead.
            TimeoutError: it took longer than `START_S`.
        """
        await until_ready(self._is_ready, process=self.process, log=self.log)

    async def _is_ready(self) -> bool:
        return await self.probe("/ready") == 200

    async def tokens(self, body: dict[str, Any]) -> list[int]:
        """Return the answer to one completion, as token ids."""
        answer = await self.api.complete(body, request_id=new_id(), timeout_s=REQUEST_S)
        tokens: list[int] = answer["choices"][0]["token_ids"]
        return tokens

    async def prompt_tokens(self, source: str) -> float:
        """Return the prompt tokens so far that came from `source`, in vLLM's words."""
        samples = await self.api.samples()
        return vllm_metrics.total(samples, "vllm:prompt_tokens_by_source_total", source=source)

    async def end(self) -> None:
        """Stop it."""
        # The second signal ends an engine that still drains.
        for _ in range(2):
            if self.process.returncode is None:
                self.process.send_signal(signal.SIGTERM)
        await self.process.wait()


@dataclass
class Pair:
    """A prefill and a decode engine, as one request sees them."""

    prefill: RealEngine
    decode: RealEngine

    async def prefilled(self, body: dict[str, Any], request_id: str) -> dict[str, Any]:
        """Have the prompt computed; return what the decode engine needs to fetch its cache."""
        asked = body | {"max_tokens": 1, KV_PARAMS: REMOTE_DECODE}
        answer = await self.prefill.api.complete(asked, request_id=request_id, timeout_s=REQUEST_S)
        parameters: dict[str, Any] = answer[KV_PARAMS]
        return parameters

    async def answer(self, body: dict[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the answer through both, and the seconds that it took the decode engine."""
        request_id = new_id()
        parameters = await self.prefilled(body, request_id)
        asked_s = time.perf_counter()
        answer = await self.decode.api.complete(
            body | {KV_PARAMS: parameters}, request_id=request_id, timeout_s=REQUEST_S
        )
        choice: dict[str, Any] = answer["choices"][0]
        return choice, time.perf_counter() - asked_s

    async def tokens(self, body: dict[str, Any]) -> list[int]:
        """Return the answer through both, as token ids."""
        choice, _ = await self.answer(body)
        tokens: list[int] = choice["token_ids"]
        return tokens


async def start(
    python: str,
    *arguments: str,
    session: aiohttp.ClientSession,
    log: Path,
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> RealEngine:
    """Start it as a pod would on loopback; its output goes to `log`.

    `port` is that of vLLM's API; `None`: a free one, as those of the launcher are.
    """
    path = os.pathsep.join([*PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])])
    free, control_port, side_channel_port = free_ports(3)
    port = port or free
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            python,
            "-m",
            "tandem_engine.serve",
            "serve",
            *arguments,
            "--host=127.0.0.1",
            f"--port={port}",
            f"--control-port={control_port}",
            f"--side-channel-port={side_channel_port}",
            "--drain-settle-s=0.5",
            env={
                **os.environ,
                "PYTHONPATH": path,
                "HOME": str(log.parent),
                **(environment or {}),
            },
            stdout=output,
            stderr=output,
        )
    api = VllmApi(session, f"http://127.0.0.1:{port}")
    return RealEngine(process, api, f"http://127.0.0.1:{control_port}", log)


def new_id() -> str:
    """Return an id for a request."""
    return str(uuid.uuid4())
