"""One line per step with its time, and the output of a failed command instead of a stack trace."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.names import BUILD

_STARTED = time.monotonic()


class CannotContinueError(Exception):
    """Something is missing on this machine: one sentence says what, for the user to act on."""


def say(text: str) -> None:
    """Print one progress line, stamped with the seconds since the start."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str, doing: str) -> Iterator[None]:
    """Announce a slow step and say how long it took."""
    say(f"{name}: {doing} ...")
    before = time.monotonic()
    yield
    say(f"{name}: done in {time.monotonic() - before:.1f} s")


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout_s: float | None = None,
) -> str:
    """Run a command and return its output; a failure carries the end of what it printed."""
    words = [str(word) for word in command]
    try:
        result = subprocess.run(
            words,
            cwd=cwd,
            env=dict(env) if env is not None else None,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise CannotContinueError(f"`{words[0]}` is not installed.") from error
    except subprocess.TimeoutExpired as error:
        raise CannotContinueError(
            f"`{' '.join(words[:4])}` did not end within {timeout_s} s."
        ) from error
    if result.returncode != 0:
        log = keep_log(words, result.stdout + result.stderr)
        tail = "\n".join((result.stderr or result.stdout).strip().splitlines()[-12:])
        raise CannotContinueError(
            f"`{' '.join(words[:6])}` failed (exit {result.returncode}, output in {log}):\n{tail}"
        )
    return result.stdout


def answers(command: Sequence[str | Path], *, timeout_s: float) -> bool:
    """Return whether a command succeeds within a time limit; its output is dropped."""
    try:
        result = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except (FileNotFoundError, PermissionError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0


def keep_log(words: Sequence[str], text: str) -> Path:
    """Keep a failed command's whole output beside the other build results."""
    path = BUILD / "logs" / f"{Path(words[0]).name}-{time.strftime('%H%M%S')}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"$ {' '.join(words)}\n{text}")
    return path
