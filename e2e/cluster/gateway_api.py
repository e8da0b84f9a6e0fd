"""The definitions of the Gateway API, of its standard channel, as its Go module ships them."""

from __future__ import annotations

import shutil
from pathlib import Path

from e2e.cluster import gobuild, names
from e2e.cluster.store import entry_dir, fingerprint, is_whole, obtain

_MODULE = "gateway-api"
_GROUP = "gateway.networking.k8s.io"
ROUTES = f"{_GROUP}_httproutes.yaml"


def problem() -> str | None:
    """Return why this machine cannot get them, in one sentence, or nothing."""
    return None if is_whole(entry_dir(_MODULE, _key())) else gobuild.go_problem()


def definitions() -> Path:
    """Return the folder of the CustomResourceDefinitions, a file for each kind."""
    return obtain(
        _MODULE,
        _key(),
        doing="getting its definitions from its Go module",
        make=_copy,
    )


def _key() -> str:
    return fingerprint(files=(names.MODULES / _MODULE,))


def _copy(target: Path) -> None:
    source = gobuild.module_dir(_MODULE, "sigs.k8s.io/gateway-api") / "config" / "crd" / "standard"
    for file in source.glob(f"{_GROUP}_*.yaml"):
        # The module cache is read-only, and an entry is removed one day.
        shutil.copyfile(file, target / file.name)
