"""Finished runs of our simulator, each kept under a hash of everything that its result needs.

Imports, comments and docstrings change no result, so new words make no run anew.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.replay.environment import cache_directory
from benchmarks.source import meaning

REPOSITORY = Path(__file__).resolve().parents[2]
NOTED = REPOSITORY / "benchmarks" / "simulator" / "nvidia.json"
CACHE = cache_directory()
# What a result depends on besides its own settings.
CODE = (
    "operator/tandem_operator/core",
    "operator/tandem_operator/sim",
    "engine/tandem_routing",
    "engine/tandem_least_squares",
    "benchmarks/replay",
    "contracts/tandem_contracts",
)


def kept(
    told: object, folder: Path, run: Callable[[], dict[str, Any]], *, made_by: Sequence[Path]
) -> dict[str, Any]:
    """Return the result of `run`, or the kept result of the same run with the same code.

    `told` tells one run from another; `made_by` are the files of the benchmark itself.
    """
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    digest.update(_code() + "".join(meaning(path.read_text()) for path in made_by).encode())
    path = folder / f"{digest.hexdigest()[:24]}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    found = run()
    folder.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: a run that was stopped must not be taken for one that ended.
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(found))
    part.replace(path)
    return found


@cache
def _code() -> bytes:
    files = [p for folder in CODE for p in sorted((REPOSITORY / folder).rglob("*.py"))]
    digest = hashlib.sha256(NOTED.read_bytes())
    for path in files:
        digest.update(meaning(path.read_text()).encode())
    return digest.digest()
