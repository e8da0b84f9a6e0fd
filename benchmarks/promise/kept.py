"""Finished runs, one a line, each under a hash of everything that its result depends on.

Imports, comments and docstrings change no result, so a file that moves makes no run anew.
Several processes may append at once. What a killed process left half written is not a run.
"""

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.replay.environment import cache_directory
from benchmarks.source import meaning
from tandem_contracts.ttft_bound import ttft_bound_s
from tandem_operator.api import Router
from tandem_operator.cli.input.case import router_of
from tandem_operator.core.slo import Slo

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = cache_directory() / "promise"
OPERATOR = REPOSITORY / "operator" / "tandem_operator"
HERE = Path(__file__).resolve().parent

Row = Mapping[str, Any]

SIMULATOR = OPERATOR / "sim"
# What every run depends on: the world, and how its outcome is scored.
WORLD = (
    *(
        path
        for part in ("cluster", "engines", "routing", "traces")
        for path in sorted((SIMULATOR / part).glob("*.py"))
    ),
    *(SIMULATOR / f"{name}.py" for name in ("flight", "pool")),
    *sorted((REPOSITORY / "engine" / "tandem_routing").glob("*.py")),
    REPOSITORY / "engine" / "tandem_least_squares" / "__init__.py",
    HERE / "traffic.py",
    HERE / "runs.py",
    HERE / "cases.py",
)
BASELINES = SIMULATOR / "baselines"
SEEN = (SIMULATOR / "ledger.py", SIMULATOR / "observe.py")
SETTINGS = OPERATOR / "cli" / "experiments" / "policies.py"
ARRIVALS = OPERATOR / "core" / "observe" / "arrivals.py"
TANDEM = (
    *sorted((OPERATOR / "core").rglob("*.py")),
    *sorted((OPERATOR / "api").rglob("*.py")),
    OPERATOR / "workloads" / "pool_spec.py",
    SIMULATOR / "policy.py",
    *SEEN,
)

# By the kind of policy, what decides besides.
OWN: dict[str, Sequence[Path]] = {
    "fixed": (),
    "clairvoyant": (BASELINES / "clairvoyant.py",),
    "hold": (BASELINES / "hold.py", BASELINES / "signals.py", ARRIVALS, *SEEN),
    "ratchet": (
        HERE / "ratchet.py",
        BASELINES / "hold.py",
        BASELINES / "signals.py",
        ARRIVALS,
        *SEEN,
    ),
    "hpa": (BASELINES / "hpa.py", BASELINES / "signals.py", SETTINGS, *SEEN),
    "keda": (BASELINES / "hpa.py", BASELINES / "signals.py", SETTINGS, *SEEN),
    "dynamo": (BASELINES / "dynamo.py", BASELINES / "signals.py", ARRIVALS, *SEEN),
    "tandem": TANDEM,
    "caught": (*TANDEM, BASELINES / "clairvoyant.py", HERE / "relay.py"),
    "noticed": (
        *TANDEM,
        BASELINES / "clairvoyant.py",
        HERE / "present.py",
        HERE / "relay.py",
    ),
}


def depends_on(kind: str) -> tuple[Path, ...]:
    """Return the code that runs of a kind of policy depend on: its own, and the world around it."""
    return (*WORLD, *OWN[kind])


@cache
def code(kind: str) -> str:
    """Return a hash of the code that runs of a kind of policy depend on."""
    digest = hashlib.sha256(
        f"{inspect.getsource(Slo)}{inspect.getsource(ttft_bound_s)}{router_of(Router())}".encode()
    )
    for path in depends_on(kind):
        digest.update(meaning(path.read_text()).encode())
    return digest.hexdigest()


def key_of(kind: str, *settings: object) -> str:
    """Return the key of a run of that kind of policy; `settings` tell it from others."""
    return hashlib.sha256("\0".join((code(kind), *map(str, settings))).encode()).hexdigest()[:24]


@dataclass(slots=True)
class Kept:
    """A file of runs, and what it held when it was last read."""

    path: Path
    _rows: dict[str, Row] = field(default_factory=dict)
    _read_to: int = 0

    def get(self, key: str, run: Callable[[], Row]) -> Row:
        """Return the run under this key, made now where there is none."""
        if key not in self._rows:
            self._read()
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = run()
            self._append(key, found)
        return found

    def _read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            lines.seek(self._read_to)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read_to += len(line)
                entry = _entry(line)
                if entry is not None:
                    self._rows[entry["key"]] = entry["row"]

    def _append(self, key: str, row: Row) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The newline in front ends what a killed process may have left.
        line = "\n" + json.dumps({"key": key, "row": row}, separators=(",", ":")) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            # One write: lines of several processes stay whole.
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        return None
    return entry
