"""The demo model's engine, as small as it can be."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.engines import engine
from benchmarks.engines.engine import PACKAGES, RealEngine

SMALL = (
    "--served-model-name=tiny",
    "--dtype=float32",
    "--block-size=32",
    "--max-model-len=2048",
    "--max-num-seqs=16",
    "--cpu-threads=1",
    "--kv-lease-s=12",
)


async def start(
    python: str,
    *arguments: str,
    session: aiohttp.ClientSession,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> RealEngine:
    """Start it as a pod would, with what a test on loopback needs otherwise."""
    return await engine.start(
        python,
        *arguments,
        *SMALL,
        session=session,
        log=log,
        environment={"PYTHONPATH": str(PACKAGES), **(environment or {})},
    )


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
