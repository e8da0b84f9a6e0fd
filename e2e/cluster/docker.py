"""The Docker engine: used as it is where one answers, started where none does and we may."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from e2e.cluster import gobuild, names
from e2e.cluster.progress import CannotContinueError, answers, run, say, step
from e2e.cluster.store import locked

_ANSWER_S = 10.0
_START_S = 60.0
_PULL_S = 20.0
_PID_FILE = Path("/var/run/docker.pid")
_PACKAGES = ("docker.io", "containerd", "runc", "iptables")
_SYS_RESOURCE_BIT = 24
_RUNTIME = "tandem"
_RECENT_S = 3600.0
_OUR_TAG = re.compile(r"^[0-9a-f]{12}$")


def engine_answers() -> bool:
    """Return whether a Docker engine answers this user."""
    return answers(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=_ANSWER_S)


def can_pull() -> bool:
    """Return whether images can be pulled, by pulling a tiny one."""
    return answers(["docker", "pull", "--quiet", names.STOCK_TINY_IMAGE], timeout_s=_PULL_S)


def lacks_sys_resource(status: str | None = None) -> bool:
    """Return whether even root lacks CAP_SYS_RESOURCE, so that no container can be privileged."""
    text = status if status is not None else Path("/proc/self/status").read_text()
    held = next(line.split()[1] for line in text.splitlines() if line.startswith("CapBnd:"))
    return not int(held, 16) >> _SYS_RESOURCE_BIT & 1


def start_problem() -> str | None:
    """Return why we cannot start an engine on this machine, in one sentence, or nothing."""
    if shutil.which("dockerd"):
        if os.geteuid() == 0:
            return None
        return "Docker does not answer; start it (`sudo systemctl start docker`) or run as root."
    if not shutil.which("apt-get"):
        return "Docker is not installed; install it (https://docs.docker.com/engine/install/)."
    if os.geteuid() != 0:
        return "Docker is not installed; install it (`sudo apt-get install docker.io`)."
    return None


def ensure_engine() -> None:
    """See to it that an engine answers, or say in one sentence why none can."""
    if engine_answers():
        _restore_runtime()
        say("docker: answers")
        return
    if problem := start_problem():
        raise CannotContinueError(problem)
    with locked("docker-engine"):
        if engine_answers():
            # Another run started it meanwhile.
            return
        _install()
        with step("docker", "starting the engine"):
            start_until_it_answers()


def install_packages(*packages: str) -> None:
    """Install Debian packages that are missing."""
    lacking = [one for one in packages if not answers(["dpkg", "-s", one], timeout_s=10)]
    if not lacking:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CannotContinueError(
            f"Debian packages are missing and only root can install them: {' '.join(lacking)}."
        )
    with step("packages", f"installing {' '.join(lacking)}"):
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        run(["apt-get", "update", "-q"], env=quiet)
        run(["apt-get", "install", "-qy", "--no-install-recommends", *lacking], env=quiet)


def has_image(image: str) -> bool:
    """Return whether the engine holds an image."""
    return answers(["docker", "image", "inspect", image], timeout_s=30)


def forget_older(repository: str, *, used: set[str]) -> None:
    """Remove our images of other tags, but the newest of them and what another run may need."""
    listing = run(
        [
            *("docker", "images", repository, "--filter", f"label={names.OWNED}"),
            *("--format", "{{.Repository}}:{{.Tag}}"),
        ]
    )
    older = [one for one in listing.split() if one not in used and is_ours(one, repository)]
    for one in older[1:]:
        # Docker itself refuses to remove what a container runs on.
        if _age_s(one) > _RECENT_S and answers(["docker", "rmi", one], timeout_s=120):
            say(f"{one}: removed")


def _age_s(image: str) -> float:
    created = run(["docker", "image", "inspect", "--format", "{{.Created}}", image]).strip()
    return time.time() - datetime.fromisoformat(created).timestamp()


def is_ours(name: str, repository: str) -> bool:
    """Return whether an image of a repository has a tag that we gave it, a hash of its inputs."""
    found, _, tag = name.partition(":")
    return found == repository and bool(_OUR_TAG.match(tag))


def _install() -> None:
    if not shutil.which("dockerd"):
        install_packages(*_PACKAGES)
    if not shutil.which("docker"):
        install_packages("docker-cli")  # A package of its own from Debian 13 on.


def forget_stale_pid(pid_file: Path = _PID_FILE, *, processes: Path = Path("/proc")) -> None:
    """Remove the pid file of an engine that is gone: dockerd refuses to start beside it."""
    try:
        command = (processes / pid_file.read_text().strip() / "comm").read_text().strip()
    except OSError:
        command = None
    if pid_file.exists() and command != "dockerd":
        say("docker: removing the pid file of an engine that is gone")
        pid_file.unlink()


def _start() -> subprocess.Popen[bytes] | None:
    """Start the engine; return its process where no service manager looks after it."""
    if not lacks_sys_resource() and Path("/run/systemd/system").is_dir():
        run(["systemctl", "start", "docker"])
        return None
    command = ["dockerd"]
    if lacks_sys_resource():
        filtered = names.bin_dir() / "runc-filter"
        _put_runtime(filtered)
        command += ["--add-runtime", f"{_RUNTIME}={filtered}", "--default-runtime", _RUNTIME]
    log = names.cache_dir() / "dockerd.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
        )


def _put_runtime(target: Path) -> None:
    """Copy runc-filter to a path that outlives this clone: the engine keeps it by path."""
    built = gobuild.build(gobuild.PROGRAMS) / "runc-filter"
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".new")
    shutil.copy(built, unfinished)
    unfinished.replace(target)


def _restore_runtime() -> None:
    """Put runc-filter back where an engine of ours expects it (the cache may have been removed)."""
    template = f'{{{{with index .Runtimes "{_RUNTIME}"}}}}{{{{.Path}}}}{{{{end}}}}'
    path = run(["docker", "info", "--format", template], timeout_s=_ANSWER_S).strip()
    if path and not Path(path).exists():
        say(f"docker: restoring {path}")
        _put_runtime(Path(path))


def start_until_it_answers(
    *,
    start: Callable[[], subprocess.Popen[bytes] | None] = _start,
    ready: Callable[[], bool] = engine_answers,
    pid_file: Path = _PID_FILE,
    within_s: float = _START_S,
    pause_s: float = 1.0,
) -> None:
    """Start the engine, again if it gave up beside one that was killed and still about to end."""
    deadline = time.monotonic() + within_s
    forget_stale_pid(pid_file)
    process = start()
    while time.monotonic() < deadline:
        if ready():
            return
        time.sleep(pause_s / 5)
        if process is not None and process.poll() is not None:
            time.sleep(pause_s)
            forget_stale_pid(pid_file)
            process = start()
    log = names.cache_dir() / "dockerd.log"
    tail = ""
    with contextlib.suppress(OSError):
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    raise CannotContinueError(f"dockerd did not answer within {within_s:g} s ({log}):\n{tail}")
