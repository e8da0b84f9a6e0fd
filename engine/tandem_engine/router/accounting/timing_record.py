"""The opt-in record of per-request timings, one JSON object per line, for audits.

It holds ids, times and counts, never content. Its size is bounded: a full file becomes `FILE.1`.
"""

import contextlib
import json
import logging
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


class TimingRecord:
    """Appends lines to a file of at most `max_bytes`, and keeps one older file."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._failing = False
        self._open()

    def write(self, row: dict[str, Any]) -> None:
        """Append one request."""
        line = json.dumps(row) + "\n"
        try:
            if self._size + len(line) > self._max_bytes and self._size:
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._open()
            self._file.write(line)
        except (OSError, ValueError) as error:
            # A full disk, or a file that could not be reopened, must not fail a served request.
            if not self._failing:
                logger.error("timing record not written", extra={"why": str(error)})
            self._failing = True
            return
        self._failing = False
        self._size += len(line)

    def close(self) -> None:
        """Write the rest and close."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _open(self) -> None:
        # Line buffered: an audit that copies the file finds whole lines.
        self._file = self._path.open("a", buffering=1, encoding="utf-8")
        self._size = self._path.stat().st_size
