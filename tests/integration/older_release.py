"""A packaged release of yesterday: charts with an older schema and older image tags.

Built from today's charts by taking things away, so that an upgrade from it meets what a real one
meets: a kind, fields, defaults, a column and rules that appear, and images that change.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from manifests.generate import CHARTS, REGISTRY, helm_program
from tandem_operator.api import GROUP, PLURAL, ROLE_PLURAL
from tandem_operator.api.crd import custom_resource_definition
from tests.unit.api.bad_pools import merged

VERSION = "0.0.9"
NEWER_SPEC_FIELDS = (("metrics",), ("scaling", "maxStep"), ("engine", "extraArgs"))
NEWER_STATUS_FIELDS = (("decision", "alternatives"),)


@dataclass(frozen=True, slots=True)
class OlderRelease:
    """Paths of the packaged charts."""

    crds: Path
    operator: Path


def build(folder: Path, *, images: dict[str, Any] | None = None) -> OlderRelease:
    """Return the package both charts into `folder`.

    Args:
        folder: an empty directory.
        images: values that say which; else tags of the older version.
    """
    for chart in ("tandem-crds", "tandem"):
        shutil.copytree(CHARTS / chart, folder / chart)
        _edit(folder / chart / "Chart.yaml", {"version": VERSION, "appVersion": VERSION})
    definitions = folder / "tandem-crds" / "templates"
    (definitions / f"{ROLE_PLURAL}.{GROUP}.yaml").unlink()
    (definitions / f"{PLURAL}.{GROUP}.yaml").write_text(yaml.safe_dump(older_definition()))
    # An image without a tag has the chart's version.
    values = images or {"global": {"imageRegistry": REGISTRY}}
    _edit(folder / "tandem" / "values.yaml", values | {"crds": {"enabled": False}})
    return OlderRelease(crds=_package(folder, "tandem-crds"), operator=_package(folder, "tandem"))


def older_definition() -> dict[str, Any]:
    """Return the CRD without the fields that came later."""
    definition = custom_resource_definition()
    [version] = definition["spec"]["versions"]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    for part, paths in (("spec", NEWER_SPEC_FIELDS), ("status", NEWER_STATUS_FIELDS)):
        for *parents, field in paths:
            schema = parts[part]
            for parent in parents:
                schema = schema["properties"][parent]
            del schema["properties"][field]
    version["additionalPrinterColumns"] = [
        column for column in version["additionalPrinterColumns"] if column["name"] != "DECISION"
    ]
    return definition


def _edit(path: Path, changes: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(merged(yaml.safe_load(path.read_text()), changes)))


def _package(folder: Path, chart: str) -> Path:
    command = [helm_program(), "package", folder / chart, "--destination", folder]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / f"{chart}-{VERSION}.tgz"
