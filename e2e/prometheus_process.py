"""A real Prometheus as a process on this machine, while a block runs."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.gobuild import PROMETHEUS, build
from e2e.cluster.ports import free_port

Ask = Callable[..., Any]
_UP_S, _ENDS_S = 180.0, 120.0


@contextmanager
def prometheus(folder: Path, config: Mapping[str, Any], *arguments: str) -> Iterator[Ask]:
    """Run one with its data in `folder`; yield a function that asks it by path and parameters."""
    with prometheus_url(folder, config, *arguments) as url:

        def ask(path: str, **parameters: Any) -> Any:
            query = urllib.parse.urlencode(parameters, doseq=True)
            with urllib.request.urlopen(f"{url}{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]

        yield ask


@contextmanager
def prometheus_url(folder: Path, config: Mapping[str, Any], *arguments: str) -> Iterator[str]:
    """Run one with its data in `folder`; yield its URL."""
    (folder / "prometheus.yml").write_text(yaml.safe_dump(dict(config)))
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [
            str(build(PROMETHEUS) / "prometheus"),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
            "--log.level=error",
            *arguments,
        ]
    )
    try:
        _await(f"http://{address}/-/ready", server)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=_ENDS_S)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _UP_S
    while server.poll() is None and time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"Prometheus does not answer at {url}")
