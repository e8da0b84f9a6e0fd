"""Operator, router and launcher log lines of the same form."""

import json
import logging
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from tandem_contracts.logs import FIELDS, formatter

OPERATOR = "from tandem_operator.__main__ import configure_logging; configure_logging()"
ROUTER = (
    "from tandem_engine.router.entry import configure_logs, parser;"
    " configure_logs(parser().parse_args(['--pool', 'chat', '--namespace', 'team-a']))"
)
LAUNCHER = "from tandem_engine.serve.entry import configure_logs; configure_logs()"
LOGGED = """
import logging
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("tandem.x").exception("%s did not end", "it", extra={"why": "no room"})
"""


@pytest.mark.parametrize(
    ("configure", "about"),
    [
        (OPERATOR, set()),
        (ROUTER, {"namespace", "pool"}),
        (LAUNCHER, {"pod"}),
    ],
    ids=["operator", "router", "launcher"],
)
def test_each_process_logs_the_same_fields(configure, about):
    code = f"{configure}\n{LOGGED}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    [written] = (ended.stdout + ended.stderr).splitlines()
    line = json.loads(written)
    assert list(line)[:4] == ["time", "level", "logger", "message"]
    own = {"time", "level", "logger", "message", "why", "exception"}
    assert set(line) == own | about
    assert set(line) <= set(FIELDS)
    assert (line["level"], line["logger"]) == ("error", "tandem.x")
    assert line["message"] == "it did not end"
    assert "ZeroDivisionError" in line["exception"]


def test_times_are_rfc_3339_in_utc():
    record = logging.makeLogRecord({"created": 1790000000.0625, "levelname": "INFO"})

    told = json.loads(formatter().format(record))["time"]

    assert told == "2026-09-21T14:13:20.062Z"
    assert datetime.fromisoformat(told).utcoffset() == timedelta(0)


def test_a_line_names_the_pod_that_it_is_about_rather_than_that_of_its_process():
    about = {"pool": "chat", "pod": "chat-router-1"}
    record = logging.makeLogRecord({"levelname": "INFO", "pod": "chat-decode-0"})

    line = json.loads(formatter(about).format(record))

    assert (line["pool"], line["pod"]) == ("chat", "chat-decode-0")
