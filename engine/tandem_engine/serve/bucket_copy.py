"""A copy of a model from object storage in a folder that engines share: one engine makes it, once.

The copy is made before vLLM starts and before the launcher answers probes. Probes count this time
as starting.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from tandem_engine.serve.engine_command import PLUGINS
from tandem_engine.serve.engine_failures import explain
from tandem_engine.serve.pool_fields import Worded, as_given

log = logging.getLogger(__name__)

_COMMAND = str(PLUGINS / "tandem_fetch.py")
_LAST_LINES = 50
_LEFT_AFTER_S = 900.0
"""Time without a byte after which a part of a copy counts as left by a killed pod."""
_NO_MODEL = (
    "--model: there is no config.json below {}; give the folder that holds it and the weights"
)


class FetchError(Exception):
    """The weights are not available; the text is one sentence."""


def fetch(
    uri: str,
    *,
    folder: Path,
    python: str,
    environment: Mapping[str, str],
    worded: Worded = as_given,
) -> None:
    """Copy the model into the folder; the content below a URI must not change.

    Raises:
        FetchError: nothing was left in the folder then.
    """
    if folder.is_dir():
        return
    try:
        _fetch_alone(uri, folder=folder, python=python, environment=environment, worded=worded)
    except OSError as error:
        raise FetchError(
            f"the copy of the weights cannot be kept in {folder.parent}: {error.strerror or error};"
            " give the volume of the cache more space or make it writable, or use no cache"
        ) from error


def can_fetch(folder: Path) -> bool:
    """Return whether the model is there, or this user may copy it there."""
    try:
        if folder.is_dir():
            return True
        parent = next(each for each in folder.parents if each.exists())
    except PermissionError:
        return False
    return os.access(parent, os.W_OK | os.X_OK)


def _fetch_alone(
    uri: str, *, folder: Path, python: str, environment: Mapping[str, str], worded: Worded
) -> None:
    with _told_to_leave(), _alone(folder):
        if folder.is_dir():
            return
        for left in folder.parent.glob(f".{folder.name}-*"):
            if _idle_s(left) > _LEFT_AFTER_S:
                shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            _pull([python, _COMMAND, uri, str(partial)], environment=environment, worded=worded)
            if not (partial / "config.json").is_file():
                raise FetchError(worded(_NO_MODEL.format(uri)))
            partial.chmod(0o755)
            _take(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _pull(command: Sequence[str], *, environment: Mapping[str, str], worded: Worded) -> None:
    began_s = time.monotonic()
    log.info("fetching weights")
    ended = subprocess.run(  # noqa: S603
        command,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if ended.returncode != 0:
        raise FetchError(
            explain(
                ended.stdout.splitlines()[-_LAST_LINES:],
                exit_code=ended.returncode,
                during="before vLLM started",
                worded=worded,
                who="the copy of the weights",
            )
        )
    log.info("weights fetched", extra={"seconds": round(time.monotonic() - began_s, 1)})


def _idle_s(partial: Path) -> float:
    """Return the time since the last write to it."""
    with contextlib.suppress(OSError):
        return time.time() - max(each.stat().st_mtime for each in (partial, *partial.rglob("*")))
    return 0.0


def _take(partial: Path, folder: Path) -> None:
    """Rename the copy to its final name, unless an engine on another node was first."""
    try:
        partial.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let only one engine copy at a time.

    This holds at least for one node: not every network file system locks between nodes. Engines on
    two nodes then copy at the same time, each into its own folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _told_to_leave() -> Iterator[None]:
    """Exit cleanly on SIGTERM: the process's first handler would leave a part of the copy."""

    def leave(_: int, __: FrameType | None) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
