"""Real vLLM, from the environment that `make engine-env` makes."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.engine.planned_pod import ENGINE_KEY


@pytest.fixture(scope="session")
def cache() -> Path:
    if os.environ.get("TANDEM_SKIP_ENGINE") == "1":
        pytest.skip("TANDEM_SKIP_ENGINE=1")
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("TANDEM_CACHE") or f"{home}/tandem").expanduser()


@pytest.fixture(scope="session")
def python(cache: Path) -> str:
    """Interpreter of the engine environment."""
    if not (cache / "engine-venv" / "tandem-stamp").is_file():
        pytest.fail("no engine environment: run `make engine-env`, or set TANDEM_SKIP_ENGINE=1")
    return str(cache / "engine-venv" / "bin" / "python")


@pytest.fixture(scope="session")
def model(cache: Path, python: str) -> str:
    return str(cache / "tiny-model")


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that has the key of the pool whose pods are planned."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {ENGINE_KEY}"}) as one:
        yield one
