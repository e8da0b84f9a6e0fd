"""A launcher around the stand-in for vLLM, as the tests drive it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from e2e.cluster.ports import free_ports
from tandem_engine.serve.engine_command import vllm_command
from tandem_engine.serve.engine_facts import look_around
from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.launcher import Launcher
from tandem_engine.serve.pace import LauncherPace

FAKE = Path(__file__).parent / "fake"
PACKAGES = ":".join(str(Path(__file__).parents[3] / part) for part in ("contracts", "engine"))
PATIENCE_S = 60.0
COSTS = ("token_s", "step_s", "stream_s")
QUICK = LauncherPace(health_poll_s=0.05, watch_s=0.05, drain_poll_s=0.05, last_words_s=0.1)


def options(model: Path, **changes: Any) -> dict[str, Any]:
    port, control_port, side_channel_port = free_ports(3)
    given = {
        "role": "decode",
        "model": str(model),
        "served_model_name": "tiny",
        "host": "127.0.0.1",
        "port": port,
        "control_port": control_port,
        "side_channel_port": side_channel_port,
        "max_num_seqs": 4,
        "drain_settle_s": 0,
        "stop_timeout_s": 5,
    }
    return given | changes


async def until(what: Callable[[], Any]) -> Any:
    """Wait for something that another process does."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await what()
            if found:
                return found
            await asyncio.sleep(0.02)


@dataclass
class Engine:
    settings: EngineSettings
    launcher: Launcher
    session: aiohttp.ClientSession
    task: "asyncio.Task[None]"

    @classmethod
    def start(cls, model: Path, session: aiohttp.ClientSession, **changes: Any) -> "Engine":
        fault, pace = changes.pop("fault", None), changes.pop("pace", QUICK)
        key = changes.pop("key", None)
        costs = {name: changes.pop(name) for name in COSTS if name in changes}
        settings = EngineSettings.model_validate(options(model, **changes))
        facts = look_around(
            settings.model, python=sys.executable, environment={"PYTHONPATH": str(FAKE)}
        )
        command = vllm_command(settings, facts)
        if fault:
            command.env["FAKE_VLLM"] = fault
        command.env["FAKE_VLLM_COSTS"] = json.dumps(costs)
        launcher = Launcher(settings, command, revision="r1", key=key, pace=pace)
        return cls(settings, launcher, session, asyncio.ensure_future(launcher.run()))

    async def probe(self, path: str) -> int | None:
        url = f"http://127.0.0.1:{self.settings.control_port}{path}"
        try:
            async with self.session.get(url) as answer:
                return answer.status
        except aiohttp.ClientError:
            return None

    async def words(self, path: str) -> str:
        url = f"http://127.0.0.1:{self.settings.control_port}{path}"
        async with self.session.get(url) as answer:
            return await answer.text()

    async def info(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.settings.control_port}/info"
        async with self.session.get(url) as answer:
            body: dict[str, Any] = await answer.json()
            return body

    async def tell_vllm(self, **change: Any) -> dict[str, Any]:
        async with self.session.post(f"{self.settings.url}/fake", json=change) as answer:
            body: dict[str, Any] = await answer.json()
            return body

    def signal_vllm(self, number: signal.Signals) -> None:
        engine = self.launcher._engine
        assert engine is not None
        os.killpg(engine.process.pid, number)

    async def ready(self) -> "Engine":
        async def is_ready() -> bool:
            if self.task.done():
                self.task.result()
            return await self.probe("/ready") == 200

        await until(is_ready)
        return self

    async def stopped(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.task

    async def end(self) -> None:
        self.launcher.signalled()
        self.launcher.signalled()
        await asyncio.gather(self.task, return_exceptions=True)


def cli_environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{FAKE}:{PACKAGES}", **more}
