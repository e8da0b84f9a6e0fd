"""`kubectl tandem` for krew: an archive for each platform, and the manifest that names them.

An archive holds the command line with all of its packages, for each version of Python that they
have wheels for. So it needs a Python of the user's machine, but nothing from the network, and it is
made for platforms that this machine cannot run.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import names
from e2e.cluster.progress import CannotContinueError, run
from e2e.cluster.store import sha256
from e2e.cluster.tools import uv_program
from release.order import Order, Source

MANIFEST = "tandem.krew.yaml"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
_PLUGIN = Path(__file__).parent / "plugin"
# Classes for each kind of the API, 70 MB: the command line reads objects as they are.
_UNUSED = re.compile(r"kubernetes/(aio/)?client/(api|models)/(?!__init__\.py$)")
_SHORT = "Explain and plan pools of LLM inference"
_LONG = """\
Tandem runs LLM inference as separate prefill and decode fleets, and sizes each of them for an SLO.
This plugin explains its decisions, shows pools and their cost, and checks an installation. It
checks manifests, and simulates them on recorded or generated traffic, without a cluster.
"""
_CAVEATS = """\
It needs Python 3.11, 3.12, 3.13 or 3.14 on the PATH, or its path in TANDEM_PYTHON.
The tab key needs a link in a folder of the PATH, here ~/.krew/bin:
  cd ~/.krew/bin && ln -sf ../store/tandem/*/kubectl_complete-tandem .
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """One that krew knows, and what uv calls it."""

    system: str
    machine: str
    wheels: str


PLATFORMS = (
    Platform("linux", "amd64", "x86_64-manylinux_2_28"),
    Platform("linux", "arm64", "aarch64-manylinux_2_28"),
    Platform("darwin", "amd64", "x86_64-apple-darwin"),
    Platform("darwin", "arm64", "aarch64-apple-darwin"),
)


def plugin(
    order: Order,
    source: Source,
    *,
    wheel: Path,
    folder: Path,
    work: Path,
    platforms: Iterable[Platform] = PLATFORMS,
    pythons: Sequence[str] = PYTHONS,
) -> Path:
    """Write the archives and the manifest into a folder; returns the manifest."""
    requirements = work / "cli.txt"
    words = ("export", "--frozen", "--no-dev", "--extra", "cli", "--no-emit-project", "--no-header")
    requirements.write_text(run([_uv(), *words], cwd=names.ROOT))
    archives = {}
    for platform in platforms:
        tree = work / f"plugin-{platform.system}-{platform.machine}"
        _fill(tree, platform, pythons, requirements=requirements, wheel=wheel)
        name = f"kubectl-tandem-{order.version}-{platform.system}-{platform.machine}.tar.gz"
        archives[platform] = folder / name
        _pack(tree, archives[platform], epoch_s=source.epoch_s)
        shutil.rmtree(tree)
    target = folder / MANIFEST
    target.write_text(yaml.safe_dump(manifest(order, archives), sort_keys=False, width=100))
    return target


def manifest(order: Order, archives: dict[Platform, Path]) -> dict[str, Any]:
    """What krew's index has of a plugin."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "tandem"},
        "spec": {
            "version": f"v{order.version}",
            "homepage": "https://tandem-inference.io",
            "shortDescription": _SHORT,
            "description": _LONG,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": platform.system, "arch": platform.machine}},
                    "uri": f"{order.downloads.rstrip('/')}/{archive.name}",
                    "sha256": sha256(archive),
                    "bin": "kubectl-tandem",
                }
                for platform, archive in archives.items()
            ],
        },
    }


def _uv() -> str:
    found = uv_program()
    if found is None:
        raise CannotContinueError("uv is missing; run `make .venv/ready`, which installs it.")
    return found


def _fill(
    tree: Path, platform: Platform, pythons: Sequence[str], *, requirements: Path, wheel: Path
) -> None:
    """Start files, Tandem, and its packages: those without compiled parts once for all Pythons."""
    shutil.copytree(_PLUGIN, tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(names.ROOT / "LICENSE", tree)
    pure = tree / "lib" / "any"
    for python in pythons:
        target = tree / "lib" / f"cpython-{python.replace('.', '')}"
        words = ("pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:")
        place = ("--target", target, "--python-version", python)
        run(
            [
                *(_uv(), *words, "--require-hashes", *place),
                *("--python-platform", platform.wheels, "--requirements", requirements),
            ],
            cwd=names.ROOT,
        )
        for metadata in sorted(target.glob("*.dist-info")):
            if _is_pure(metadata):
                _move(metadata, target, pure)
        for rest in (target / "bin", target / ".lock"):
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink(missing_ok=True)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(pure)


def _is_pure(metadata: Path) -> bool:
    told = Parser().parsestr((metadata / "WHEEL").read_text())
    return told["Root-Is-Purelib"] == "true"


def _move(metadata: Path, target: Path, pure: Path) -> None:
    """The files of one distribution, as its own list has them."""
    listed = (metadata / "RECORD").read_text().splitlines()
    for line in listed:
        file = line.rsplit(",", 2)[0].strip('"')
        if file.startswith("..") or not (target / file).is_file():
            continue
        moved = pure / file
        moved.parent.mkdir(parents=True, exist_ok=True)
        # A rename of one link to another of the same file leaves both.
        moved.unlink(missing_ok=True)
        os.replace(target / file, moved)


def _pack(tree: Path, archive: Path, *, epoch_s: int) -> None:
    """The same archive from the same files, without those that nothing loads."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            name = path.relative_to(tree).as_posix()
            if _UNUSED.search(name) or name.endswith((".pyc", ".pyi")):
                continue
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = path.stat().st_size, epoch_s
            entry.mode = 0o755 if path.parent == tree and not path.suffix else 0o644
            with path.open("rb") as content:
                packed.addfile(entry, content)
    # A smaller one takes three times as long.
    archive.write_bytes(gzip.compress(buffer.getvalue(), 6, mtime=0))
