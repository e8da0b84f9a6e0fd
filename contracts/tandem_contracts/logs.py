"""Logs of operator, router and launcher: one JSON object a line, with the same fields.

Code passes fields by name (`extra`). It never passes content of requests or headers.
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
    "message": "a fixed text; values that differ from line to line are in other fields",
    "namespace": "the namespace of the pool that the line is about",
    "pool": "the name of this pool",
    "pod": "the pod that the line is about",
    "why": "the cause of a failure or a refusal, in one sentence",
    "exception": "the traceback of an exception",
}
"""Meaning of each field of a line. A line lacks fields that do not apply, and may have others."""

_REQUIRED = {"asctime": "time", "levelname": "level", "name": "logger", "message": "message"}


class _Line(JsonFormatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - as the base class has it
        """Return RFC 3339, whatever the time zone of the process is."""
        del datefmt
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        """Return the fields of a line: required fields first, and the level in lower case."""
        first = {name: log_data[name] for name in _REQUIRED.values()}
        return first | {"level": str(log_data["level"]).lower()} | _without(log_data, first)


def _without(log_data: dict[str, object], names: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in log_data.items() if name not in names}


def formatter(about: Mapping[str, str] | None = None) -> logging.Formatter:
    """Return the formatter of lines; `about` holds fields for lines that do not set them."""
    renamed = {**_REQUIRED, "exc_info": "exception"}
    return _Line(list(_REQUIRED), rename_fields=renamed, defaults=dict(about or {}))


def configure(
    level: str, *, about: Mapping[str, str] | None = None, stream: TextIO | None = None
) -> None:
    """Send the logs of the whole process to `stream`, or to standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(about))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
