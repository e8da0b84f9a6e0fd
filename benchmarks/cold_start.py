"""The savings of a cache that outlives a pod, at the next start on this machine: CPU seconds, time.

    python -m benchmarks.cold_start --runs 3

Each run starts real vLLM twice as a pod of the demo does: with an empty cache, and with what the
first start left in it. With `--compile on` vLLM compiles the model as pods on GPUs do. Pods on CPU
do not: it needs a C++ compiler, and an environment whose torch has its headers, which
`images/engine/slim.py` removes. CPU seconds depend less on what else runs than the time does.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from e2e.cluster import names
from e2e.cluster.ports import free_ports
from tandem_engine.serve.engine_command import EngineCommand, vllm_command
from tandem_engine.serve.engine_facts import look_around
from tandem_engine.serve.engine_settings import EngineSettings, Role

_LONGEST_START_S = 1800.0
_POLL_S = 0.1
_EAGER = "--enforce-eager"
_NO_COMPILER = "TORCHDYNAMO_DISABLE"


@dataclass(frozen=True, slots=True)
class ColdStart:
    """One start, until vLLM calls itself healthy."""

    compiled: bool
    cache: str
    cpu_s: float
    wall_s: float
    cache_mib: float


def starts(python: str, model: str, *, compiled: bool) -> Iterator[ColdStart]:
    """Yield a start with an empty cache, and one with what it left."""
    with tempfile.TemporaryDirectory(prefix="tandem-cold-") as folder:
        for cache in ("empty", "filled"):
            command, port = _command(python, model, folder, compiled=compiled)
            cpu_s, wall_s = _start_and_end(command, port, Path(folder) / "log")
            written = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
            yield ColdStart(compiled, cache, cpu_s, wall_s, written / 2**20)


def _command(python: str, model: str, home: str, *, compiled: bool) -> tuple[EngineCommand, int]:
    port, side_channel = free_ports(2)
    settings = EngineSettings(
        role=Role.DECODE,
        model=model,
        served_model_name="tiny",
        host="127.0.0.1",
        port=port,
        side_channel_port=side_channel,
        max_model_len=2048,
        max_num_seqs=16,
        cpu_threads=1,
    )
    # The user's own cache must be no part of it.
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    facts = look_around(model, python=python, environment={**kept, "HOME": home})
    command = vllm_command(settings, facts)
    argv, env = command.argv, {**kept, "HOME": home, **command.env}
    if compiled:
        argv = tuple(each for each in argv if each != _EAGER)
        del env[_NO_COMPILER]
    return EngineCommand(argv, env), port


def _start_and_end(command: EngineCommand, port: int, log: Path) -> tuple[float, float]:
    """Return the CPU seconds and the time until it is healthy."""
    began_s = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command.argv, env=command.env, stdout=output, stderr=output, start_new_session=True
        )
    try:
        while not _is_healthy(port):
            if process.poll() is not None or time.monotonic() - began_s > _LONGEST_START_S:
                sys.exit(f"vLLM did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(_POLL_S)
        return _cpu_s(process.pid), time.monotonic() - began_s
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _cpu_s(session: int) -> float:
    """Return the CPU seconds of all processes of a session, including those that ended in it."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the program's name, which may hold anything: state, parent, group, session.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _told(found: list[ColdStart]) -> Iterator[str]:
    for compiled in sorted({each.compiled for each in found}):
        for cache in ("empty", "filled"):
            of = [each for each in found if (each.compiled, each.cache) == (compiled, cache)]
            if of:
                yield (
                    f"{'compiled' if compiled else 'eager'}, {cache} cache, {len(of)} starts:"
                    f" median {median(each.cpu_s for each in of):.1f} CPU s"
                    f" ({min(each.cpu_s for each in of):.1f} to"
                    f" {max(each.cpu_s for each in of):.1f}),"
                    f" {median(each.wall_s for each in of):.0f} s,"
                    f" {median(each.cache_mib for each in of):.1f} MiB kept"
                )


def main() -> None:
    """Measure, print each start as JSON, then the medians."""
    home = names.cache_dir()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--compile", choices=("off", "on", "both"), default="off")
    parser.add_argument("--python", default=str(home / "engine-venv" / "bin" / "python"))
    parser.add_argument("--model", default=str(home / "tiny-model"))
    given = parser.parse_args()
    modes = {"off": (False,), "on": (True,), "both": (True, False)}[given.compile]
    found: list[ColdStart] = []
    for _ in range(given.runs):
        for compiled in modes:
            for start in starts(given.python, given.model, compiled=compiled):
                found.append(start)
                print(json.dumps(asdict(start)), flush=True)
    print("\n".join(_told(found)))


if __name__ == "__main__":
    main()
