"""Files of a release: archives that are the same from the same contents, and their checksums."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster.store import sha256

SUMS = "SHA256SUMS"


def files_in(folder: Path) -> list[Path]:
    """Every file below a folder, in the order of their names."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_sums(folder: Path, files: Iterable[Path]) -> Path:
    """Write checksums as `sha256sum --check` reads them."""
    lines = (f"{sha256(path)}  {path.relative_to(folder)}\n" for path in files)
    target = folder / SUMS
    target.write_text("".join(lines))
    return target


def without_times(archive: Path, *, epoch_s: int) -> None:
    """Rewrite a .tgz without what differs from run to run: times, order, owners."""
    with tarfile.open(archive) as packed:
        members = [
            (one.name, one.mode, source.read())
            for one in packed.getmembers()
            if (source := packed.extractfile(one)) is not None
        ]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as plain:
        for name, mode, content in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch_s
            plain.addfile(entry, io.BytesIO(content))
    archive.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
    # helm writes this time into what it pushes.
    os.utime(archive, (epoch_s, epoch_s))
