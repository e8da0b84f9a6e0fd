"""Commands run by bash as a reader of the README runs them: elsewhere, with nothing of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from e2e.cluster import names
from e2e.cluster.progress import say

_SHOWN = 100
_TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Line:
    """A line that the commands printed, and when."""

    seconds: float
    text: str


def run_commands(
    block: str, *, folder: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[int, list[Line]]:
    """Run a block in a folder; returns bash's exit status, and each line as it came.

    What the block leaves in the background, as port-forward, ends with it.
    """
    lines: list[Line] = []
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env=_environment(folder, environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout, lines))
        reader.start()
        try:
            status = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            status = _TIMED_OUT
        finally:
            # What runs on in the background holds the pipe open.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reader.join()
    return status, lines


def _read(output: IO[str], lines: list[Line]) -> None:
    started, streams = time.monotonic(), False
    for text in output:
        lines.append(Line(time.monotonic() - started, text.rstrip("\n")))
        # Of a stream of tokens, the first is enough to see.
        if text.strip() and not streams:
            say(f"  | {text.rstrip()[:_SHOWN]}")
        streams = streams or text.startswith("data: ")


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the user's PATH with the tools of ours behind it, and a home that knows nothing."""
    path = os.pathsep.join([os.environ["PATH"], str(names.bin_dir())])
    kept = {key: os.environ[key] for key in ("LANG", "NO_PROXY", "no_proxy") if key in os.environ}
    return {**kept, "PATH": path, "HOME": str(folder), **more}
