"""A router as a process of its own."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.router.fake_engine import FakeEngine
from tests.unit.router.pool import settings_document


async def start(*arguments: str, environment: Mapping[str, str] | None = None) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tandem_engine.router", *arguments),
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **(environment or {})},
    )


async def serving(
    folder: Path, *pods: FakeEngine, environment: Mapping[str, str] | None = None
) -> tuple[Process, dict[str, Any]]:
    """Return a router in front of decode pods, and what it logged when its ports were open."""
    (folder / "settings.json").write_text(json.dumps(settings_document()))
    endpoints = [
        {"name": pod.name, "role": "decode", "host": "127.0.0.1", "port": pod.port} for pod in pods
    ]
    (folder / "endpoints.json").write_text(json.dumps(endpoints))
    process = await start(
        *("--settings", str(folder / "settings.json")),
        *("--endpoints", str(folder / "endpoints.json")),
        *("--host", "127.0.0.1", "--port", "0", "--internal-port", "0"),
        *("--drain-quiet-s", "0.1"),
        environment=environment,
    )
    assert process.stderr is not None
    line: dict[str, Any] = {}
    while "port" not in line:
        line = json.loads(await process.stderr.readline())
    return process, line
