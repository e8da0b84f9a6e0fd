"""A cache of slow results, each in a directory named by a hash of its inputs.

A result is made in a temporary directory and renamed when it is whole, so a killed run leaves
nothing that looks finished. A file that was changed afterwards is noticed by its time or size,
compared with its checksum, and the entry is made again when they differ.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.names import ROOT, cache_dir
from e2e.cluster.progress import say, step

_MANIFEST = ".tandem-entry.json"
_ABANDONED_S = 6 * 3600.0


def fingerprint(*values: str, files: Iterable[Path] = (), root: Path = ROOT) -> str:
    """Return a short hash of values and files: names relative to `root`, execute bits, contents."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(f"{len(value)}:{value}".encode())
    for path in sorted(_expanded(files)):
        name = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        executable = "x" if os.access(path, os.X_OK) else "-"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{name}\0{executable}\0{content}\n".encode())
    return digest.hexdigest()[:12]


def _expanded(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            yield from (
                found
                for found in path.rglob("*")
                if found.is_file() and "__pycache__" not in found.parts
            )
        else:
            yield path


def entry_dir(name: str, key: str) -> Path:
    """Return the folder of the result `name` made from inputs with hash `key`."""
    return cache_dir() / "entries" / f"{name}-{key}"


def is_whole(entry: Path) -> bool:
    """Return whether an entry is finished and unchanged since it was made."""
    try:
        manifest = json.loads((entry / _MANIFEST).read_text())
        return all(_unchanged(entry / name, *facts) for name, facts in manifest.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def obtain(name: str, key: str, *, doing: str, make: Callable[[Path], None]) -> Path:
    """Return the directory of a cached result, making it first where it is missing or broken."""
    entry = entry_dir(name, key)
    with locked(f"{name}-{key}"):
        if is_whole(entry):
            say(f"{name}: cached")
            return entry
        if entry.exists():
            say(f"{name}: the cached copy is damaged and is made again")
            shutil.rmtree(entry)
        entry.parent.mkdir(parents=True, exist_ok=True)
        with step(name, doing):
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=entry.parent))
            try:
                make(unfinished)
                _write_manifest(unfinished)
                unfinished.chmod(0o755)
                unfinished.rename(entry)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
        forget_older(name, keep=entry)
    return entry


def forget_older(name: str, *, keep: Path) -> None:
    """Keep this result and the one before it (another branch's, perhaps); remove what is older."""
    entries = {
        stem: sorted(
            (found for found in keep.parent.iterdir() if found.name.rpartition("-")[0] == stem),
            key=lambda found: found.stat().st_mtime,
            reverse=True,
        )
        for stem in (name, f".{name}")
    }
    abandoned = [
        found for found in entries[f".{name}"] if found.stat().st_mtime < time.time() - _ABANDONED_S
    ]
    for other in [*(found for found in entries[name] if found != keep)][1:] + abandoned:
        shutil.rmtree(other, ignore_errors=True)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time make a thing; the lock goes away with its holder."""
    folder = cache_dir() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name.replace("/", "_")).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: waiting for another run that makes it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file whole: a reader, or a killed run, finds all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    Path(unfinished).chmod(mode)
    Path(unfinished).replace(path)


def _write_manifest(folder: Path) -> None:
    manifest = {
        str(path.relative_to(folder)): [path.stat().st_size, path.stat().st_mtime_ns, sha256(path)]
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest))


def _unchanged(path: Path, size: int, mtime_ns: int, checksum: str) -> bool:
    facts = path.stat()
    if facts.st_size != size:
        return False
    return facts.st_mtime_ns == mtime_ns or sha256(path) == checksum


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
