"""Logs of operator, router and launcher: one JSON object a line, with the same fields.

Fields are given by name (`extra`). Content of requests and headers are never given.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

FIELDS = {
    "time": "RFC 3339 in UTC, with milliseconds: `2026-11-26T09:50:21.409Z`",
    "level": "`debug`, `info`, `warning`, `error` or `critical`",
    "logger": "the module that writes the line",
    "message": "a fixed text; what differs from line to line stands in fields of its own",
    "namespace": "of the pool that the line is about",
    "pool": "its name",
    "pod": "the pod that the line is about",
    "why": "the cause of a failure or a refusal, in one sentence",
    "exception": "the traceback of an exception",
}
"""By name, what a line has. A line lacks a field that does not apply, and may have others."""

_REQUIRED = {"asctime": "time", "levelname": "level", "name": "logger", "message": "message"}


class _Line(JsonFormatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - as the base class has it
        """RFC 3339, whatever the time zone of the process is."""
        del datefmt
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        """Levels as most collectors of logs know them; what every line has stands first."""
        first = {name: log_data[name] for name in _REQUIRED.values()}
        return first | {"level": str(log_data["level"]).lower()} | _without(log_data, first)


def _without(log_data: dict[str, object], names: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in log_data.items() if name not in names}


def formatter(about: Mapping[str, str] | None = None) -> logging.Formatter:
    """Return what makes a line; `about` are fields of each line that does not give them itself."""
    renamed = {**_REQUIRED, "exc_info": "exception"}
    return _Line(list(_REQUIRED), rename_fields=renamed, defaults=dict(about or {}))


def configure(
    level: str, *, about: Mapping[str, str] | None = None, stream: TextIO | None = None
) -> None:
    """Send the logs of the whole process to `stream`, or to standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(about))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
