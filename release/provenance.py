"""Where a release comes from: an in-toto statement with SLSA's provenance of version 1."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from e2e.cluster.names import ROOT
from e2e.cluster.store import sha256
from release.images import Published
from release.order import Order, Source

_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "https://tandem-inference.io/release/v1"
_LOCKS = ("uv.lock", "engine/uv.lock", "images/uv.txt")


def statement(
    order: Order,
    source: Source,
    *,
    published: Iterable[Published],
    files: Mapping[str, Path],
    base: Published,
    environment: Mapping[str, str] = os.environ,
    root: Path = ROOT,
) -> dict[str, Any]:
    """What was made (images, charts, files), from which commit, by whom."""
    subjects = [{"name": one.name, "digest": _digest(one.digest)} for one in published]
    subjects += [{"name": name, "digest": {"sha256": sha256(path)}} for name, path in files.items()]
    repository, builder = _builder(environment)
    locks = [{"name": name, "digest": {"sha256": sha256(root / name)}} for name in _LOCKS]
    return {
        "_type": _STATEMENT,
        "subject": subjects,
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {
                    "version": order.version,
                    "registry": order.registry,
                    "trial": order.trial,
                },
                "resolvedDependencies": [
                    _tree(repository, source),
                    {"uri": base.purl, "digest": _digest(base.digest)},
                    *locks,
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def _tree(repository: str, source: Source) -> dict[str, Any]:
    """The commit; that of a changed tree only says from where the changes went on."""
    if source.changed:
        return {"uri": repository, "annotations": {"revision": source.revision}}
    return {"uri": repository, "digest": {"gitCommit": source.commit}}


def _digest(digest: str) -> dict[str, str]:
    algorithm, _, value = digest.partition(":")
    return {algorithm: value}


def _builder(environment: Mapping[str, str]) -> tuple[str, str]:
    """The repository and who built it: a workflow that names itself, or this machine."""
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    workflow = environment.get("GITHUB_WORKFLOW_REF")
    if server and name and workflow:
        return f"git+{server}/{name}", f"{server}/{workflow}"
    return "git+https://tandem-inference.io", f"{_BUILD}#own-machine"
