"""A pool that asks for what its model or vLLM cannot give: the pod's last words name the field."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.engines.engine import START_S, start
from tests.engine.planned_pod import NAME, planned_container, resolved, termination_log

pytestmark = pytest.mark.timeout(START_S + 60)

MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown-method": (
        {"engine.quantization": "banana"},
        ("spec.engine.quantization", "Unknown quantization method: banana."),
    ),
    "other-method": (
        {"engine.quantization": "awq", "engine.dtype": "bfloat16"},
        ("spec.engine.quantization; leave it out", "Cannot find the config file for awq"),
    ),
    "too-long": (
        {"model.maxModelLen": 100_000},
        ("spec.model.maxModelLen", "write spec.model.maxModelLen: 4096 or less"),
    ),
    "no-folder": (
        {"model.source": {"image": {"path": "/models/nowhere"}}},
        ("spec.model.source.image.path", "/models/nowhere does not exist"),
    ),
    "no-claim-path": (
        {"model.source": {"persistentVolumeClaim": {"claimName": "w", "path": "/nowhere"}}},
        ("spec.model.source.persistentVolumeClaim.path", "/mnt/model/nowhere does not exist"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_the_last_words_of_a_pod_name_the_pools_field_and_say_what_is_wrong(
    mistake: str, python: str, model: str, tmp_path: Path
) -> None:
    changes, words = MISTAKES[mistake]
    container = planned_container({"model.source": {"image": {"path": model}}, **changes})
    log = termination_log(tmp_path / "pod")
    async with aiohttp.ClientSession() as session:
        engine = await start(
            python,
            *container["args"],
            f"--termination-log={log}",
            session=session,
            log=tmp_path / "log",
            environment=resolved(container, secrets={f"{NAME.engine_key}/key": "key"}),
        )
        async with asyncio.timeout(START_S):
            assert await engine.process.wait() != 0

    said = log.read_text()
    for each in words:
        assert each in said
    assert " --" not in said
    assert "ValidationError" not in said
