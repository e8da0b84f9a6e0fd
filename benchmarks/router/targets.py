"""The measured targets: both ends alone, Tandem's router, and vllm-router from PyPI."""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.router.cores import Cores, on_cores
from benchmarks.router.report import ALONE
from e2e.cluster.ports import free_port

VLLM_ROUTER = "vllm-router==0.1.17"
_PYTHON = Path(sys.executable)


@dataclass(frozen=True, slots=True)
class Target:
    """A running process to send load to.

    Attributes:
        port: the port for requests of streams.
        prefill_port: the port for requests of prefill, which only the upstream has.
        internal_port: the port of a router's own metrics.
    """

    name: str
    port: int
    pid: int
    prefill_port: int | None = None
    internal_port: int | None = None

    def rss_mib(self) -> float:
        """Return the resident memory of the process."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


@contextlib.contextmanager
def process(
    command: Sequence[str | Path], *, log: Path, cores: set[int]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command on some cores, its output in a file, and end it afterwards."""
    with log.open("wb") as out:
        running = subprocess.Popen(on_cores(cores, command), stdout=out, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.kill()
            running.wait()


@contextlib.contextmanager
def upstream(
    program: Path, folder: Path, *, cores: Cores, stream_interval: int = 1
) -> Iterator[Target]:
    """Run the trivial engine, with `stream_interval` tokens in each event but the first."""
    prefill, port = free_port(), free_port()
    command: list[str | Path] = [program, "upstream", f"--ports={prefill},{port}"]
    command.append(f"--interval={stream_interval}")
    with process(command, log=folder / "upstream.log", cores=cores.load) as running:
        _wait_for(port, "/health", running)
        yield Target(ALONE, port, running.pid, prefill)


@contextlib.contextmanager
def tandem_router(
    engine: Target, folder: Path, *, cores: Cores, python: Path = _PYTHON
) -> Iterator[Target]:
    """Run Tandem's router in front of the engine, which plays both roles."""
    settings = {
        "pool": "benchmark",
        "models": ["tiny"],
        "slo": {"ttft_s": 60, "tpot_s": 60},
        "limits": {
            "concurrent_requests": 10000,
            "prefill_requests_per_pod": 10000,
            "prefill_tokens_per_pod": 10**9,
        },
        # vllm-router has no such bounds: both may take their time to accept.
        "timeouts": {"connect_s": 10.0},
    }
    ports = {"prefill": (engine.prefill_port,), "decode": (engine.port,)}
    with started_router(
        folder, settings=settings, ports=ports, cores=cores.measured, python=python
    ) as target:
        yield target


@contextlib.contextmanager
def started_router(
    folder: Path,
    *,
    settings: Mapping[str, object],
    ports: Mapping[str, Sequence[int | None]],
    cores: set[int],
    python: Path = _PYTHON,
) -> Iterator[Target]:
    """Run Tandem's router in front of engines by their roles, with its files in `folder`."""
    document, endpoints = folder / "settings.json", folder / "endpoints.json"
    document.write_text(json.dumps({"schema": 1, **settings}))
    endpoints.write_text(
        json.dumps(
            [
                {"name": f"{role}-{number}", "role": role, "host": "127.0.0.1", "port": port}
                for role, those in ports.items()
                for number, port in enumerate(those)
            ]
        )
    )
    port, internal = free_port(), free_port()
    command: list[str | Path] = [python, "-m", "tandem_engine.router", "--host", "127.0.0.1"]
    command += ["--settings", str(document), "--endpoints", str(endpoints)]
    command += ["--port", str(port), "--internal-port", str(internal)]
    with process(command, log=folder / "tandem-router.log", cores=cores) as running:
        _wait_for(port, "/ready", running)
        yield Target("tandem-router", port, running.pid, internal_port=internal)


@contextlib.contextmanager
def vllm_router(
    engine: Target, folder: Path, *, cores: Cores, executable: Path
) -> Iterator[Target]:
    """Run vllm-router in front of the engine, which plays both roles."""
    port = free_port()
    command = [str(executable), "--vllm-pd-disaggregation"]
    command += ["--prefill", f"http://127.0.0.1:{engine.prefill_port}"]
    command += ["--decode", f"http://127.0.0.1:{engine.port}"]
    command += ["--policy", "round_robin", "--kv-connector", "nixl", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--prometheus-port", str(free_port())]
    command += ["--max-concurrent-requests", "10000", "--log-level", "error"]
    with process(command, log=folder / "vllm-router.log", cores=cores.measured) as running:
        _wait_for(port, "/health", running)
        yield Target("vllm-router", port, running.pid)


def install_vllm_router(folder: Path) -> Path:
    """Install vllm-router into a virtual environment of its own, once; return its command."""
    environment = folder / "vllm-router"
    executable = environment / "bin" / "vllm-router"
    if not executable.exists():
        print(f"==> {VLLM_ROUTER} into {environment}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", VLLM_ROUTER], check=True)
    return executable


def _wait_for(port: int, path: str, running: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if running.poll() is not None:
            raise RuntimeError(f"the process ended with {running.returncode}; see its log")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"nothing answers on port {port} after 60 s")
