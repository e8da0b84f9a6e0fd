"""JSON logs on standard error. Fields are given by name; content and headers are never given."""

import json
import logging
import time
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line; `extra` fields stand beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in vars(record).items():
            if key not in _STANDARD:
                line[key] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str) -> None:
    """Send the whole process's logs to standard error as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # aiohttp logs request lines and peer errors there; both can hold what clients sent.
    for name in ("aiohttp.access", "aiohttp.server", "aiohttp.client", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
