"""What is to be released: checked before anything is built."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.cluster.names import ROOT
from e2e.cluster.progress import CannotContinueError, run
from manifests.generate import REGISTRY as NO_REGISTRY

CHARTS = ("tandem", "tandem-crds")
NO_DOWNLOADS = "https://downloads.example.com"
_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
_REGISTRY = re.compile(r"(localhost|[A-Za-z0-9-]*[.:][A-Za-z0-9.:-]*)(/[a-z0-9._-]+)*")
_DOWNLOADS = re.compile(r"https://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~+-]+)*/?")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Order:
    """One release: its version, and where its images and charts are pulled from.

    A trial may be of a tree with changes, and takes the notes of what is not released yet.

    Attributes:
        downloads: the address below which the release's files can be fetched.
    """

    version: str
    registry: str
    push: bool = False
    trial: bool = False
    downloads: str = NO_DOWNLOADS


@dataclass(frozen=True, slots=True)
class Source:
    """The commit that is released, and its time as SOURCE_DATE_EPOCH has it.

    A tree that is `changed` is of no commit: its contents are nowhere but here.
    """

    commit: str
    epoch_s: int
    changed: bool = False

    @property
    def revision(self) -> str:
        """The commit, with git's own mark of a tree with changes."""
        return f"{self.commit}-dirty" if self.changed else self.commit


def check_order(order: Order, *, root: Path = ROOT) -> None:
    """Refuse what cannot be released, in one sentence."""
    for problem in (
        version_problem(order.version, root),
        registry_problem(order),
        downloads_problem(order),
    ):
        if problem:
            raise CannotContinueError(problem)


def version_problem(version: str, root: Path) -> str | None:
    """Why this version cannot be released from this tree, or nothing."""
    if not version:
        return f"VERSION is missing; write VERSION={project_version(root)}."
    if not _VERSION.fullmatch(version):
        return f"VERSION is '{version}', which is not three numbers; write it as VERSION=0.1.0."
    for place, stated in _stated(root).items():
        if stated != version:
            return f"VERSION is {version}, but {place} says {stated}; write {version} there first."
    return None


def project_version(root: Path = ROOT) -> str:
    """The version that the tree is of."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _stated(root: Path) -> dict[str, str]:
    """Every place that says the version."""
    stated = {"pyproject.toml": project_version(root)}
    for chart in CHARTS:
        place = f"charts/{chart}/Chart.yaml"
        described = yaml.safe_load((root / place).read_text())
        stated |= {f"{key} in {place}": str(described[key]) for key in ("version", "appVersion")}
    return stated


def registry_problem(order: Order) -> str | None:
    """Why images cannot be pushed there, or nothing."""
    if not _REGISTRY.fullmatch(order.registry):
        return (
            f"REGISTRY is '{order.registry}', which is not a registry; write its host without "
            "https://, such as REGISTRY=registry.example.com/team."
        )
    if order.push and order.registry == NO_REGISTRY:
        return (
            "PUSH needs a registry of yours; write it as REGISTRY=HOST/PATH, such as "
            "REGISTRY=ghcr.io/your-name."
        )
    return None


def downloads_problem(order: Order) -> str | None:
    """Why nobody could fetch the release's files there, or nothing."""
    if _DOWNLOADS.fullmatch(order.downloads):
        return None
    return (
        f"DOWNLOADS is '{order.downloads}', which is not an https:// URL of a folder; write it as "
        "DOWNLOADS=https://downloads.example.com/tandem/0.1.0."
    )


def source_of(*, trial: bool, root: Path = ROOT) -> Source:
    """The commit of the tree; one with changes is refused unless this is a trial."""
    changes = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if changes and not trial:
        files = ", ".join(line[3:] for line in changes[:_SHOWN])
        raise CannotContinueError(
            f"The tree has {len(changes)} changes ({files}); commit them, or write TRIAL=1."
        )
    commit, epoch_s = run(["git", "log", "-1", "--format=%H %ct"], cwd=root).split()
    return Source(commit, int(epoch_s), changed=bool(changes))
