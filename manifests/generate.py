"""Writes the files that are made from models, Tandem's and Kubernetes', and from the charts.

`make crds` runs it. A test holds the committed files to what this would write.
"""

import argparse
import functools
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.images import IMAGES
from e2e.cluster.tools import TOOLS, ensure
from manifests import (
    alerts,
    chart_readme,
    dashboards,
    metrics_reference,
    pod_schema,
    tuning_reference,
)
from tandem_contracts import document
from tandem_operator.api import crd, reference
from tandem_operator.workloads.builders.vllm_options import ALLOWED
from tandem_operator.workloads.checks.pod_schema import FILE as POD_SCHEMA

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ROOT / "charts"
DASHBOARDS = CHARTS / "tandem" / "files" / "dashboards"
NAMESPACE = "tandem-system"
INSTALL = ROOT / "manifests" / "install.yaml"

# Reserved by RFC 2606: no image can be published there.
REGISTRY = "registry.example.com"

_INSTALL_HEAD = f"""\
# Tandem without Helm, rendered from charts/tandem by `make crds`. Its own images are of a registry
# that does not exist: Tandem publishes none yet. Write your own instead:
#   sed 's|{REGISTRY}|YOUR-REGISTRY|' install.yaml | kubectl apply --server-side -f -
"""

_NAMESPACE = f"""\
---
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""

_OPTIONS_HEAD = (
    "# Made by `make crds` from operator/tandem_operator/workloads/builders/vllm_options.py.\n"
)


def from_models() -> Mapping[Path, str]:
    """CRDs, references, contracts, fields of pods, files of the chart, alerts, dashboards."""
    contracts = ROOT / "docs" / "reference" / "contracts.md"
    values = (CHARTS / "tandem" / "values.yaml").read_text(encoding="utf-8")
    places = (
        ROOT / "crds",
        CHARTS / "tandem-crds" / "templates",
        CHARTS / "tandem" / "files" / "crds",
    )
    return {
        **{
            place / f"{name}.yaml": definition
            for name, definition in crd.definitions().items()
            for place in places
        },
        ROOT / "docs" / "reference" / "api.md": reference.render(),
        ROOT / "docs" / "reference" / "tuning.md": tuning_reference.render(),
        ROOT / "docs" / "reference" / "metrics.md": metrics_reference.render(),
        ROOT / "operator" / "tandem_operator" / POD_SCHEMA: pod_schema.render(),
        contracts: document.filled(contracts.read_text(encoding="utf-8")),
        CHARTS / "tandem" / "files" / "engine-options.txt": _OPTIONS_HEAD
        + "".join(f"{option}\n" for option in sorted(ALLOWED)),
        CHARTS / "tandem" / "files" / "alerts.yaml": alerts.render(),
        ROOT / "manifests" / "alerts.yaml": alerts.render(),
        CHARTS / "tandem" / "README.md": chart_readme.render(values),
        **{DASHBOARDS / name: text for name, text in dashboards.render().items()},
    }


def install_manifest() -> str:
    """Return the chart with its default values and a registry to replace, as one file."""
    # Not of all images: vLLM's own has a registry that exists.
    ours = (".".join(image.value) for image in IMAGES)
    registries = ("--set", ",".join(f"{image}.registry={REGISTRY}" for image in ours))
    return _INSTALL_HEAD + _NAMESPACE + render_chart(CHARTS / "tandem", *registries)


@functools.cache
def helm_program() -> Path:
    """Return the user's helm where its version suits, else the one in the cache."""
    return ensure(next(tool for tool in TOOLS if tool.name == "helm"))


def released_manifest(chart: Path, *, version: str) -> str:
    """Return a released chart, whose values name its images, as one file."""
    head = (
        f"# Tandem {version} without Helm: kubectl apply --server-side -f install.yaml\n"
        "# Every image of Tandem is named by its digest, and vLLM's own by its tag.\n"
    )
    return head + _NAMESPACE + render_chart(chart)


def render_chart(chart: Path, *values: str) -> str:
    """Return the objects of a chart as the release `tandem`; a folder, or a packed one."""
    words = ("template", "tandem", str(chart), "--namespace", NAMESPACE, "--skip-tests")
    result = subprocess.run(  # noqa: S603 - a fixed command
        [helm_program(), *words, *values], capture_output=True, text=True, check=False, timeout=60
    )
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return result.stdout


def main() -> None:
    """Write every file whose text changed and name it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--without-helm", action="store_true", help="leave manifests/install.yaml as it is"
    )
    files = dict(from_models())
    for path, text in files.items():
        _write(path, text)
    # The chart is rendered with the CRD that was just written.
    if not parser.parse_args().without_helm:
        _write(INSTALL, install_manifest())


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path.relative_to(ROOT))  # noqa: T201


if __name__ == "__main__":
    main()
