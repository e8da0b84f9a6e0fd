"""The charts of a release: with the images' digests in their own values, packed and pushed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.images import put
from e2e.cluster.names import ROOT
from e2e.cluster.progress import CannotContinueError, run, say
from e2e.cluster.store import sha256
from manifests.chart_readme import lines_with_paths
from manifests.generate import helm_program
from release.files import without_times
from release.images import Published, ReleasedImage, published_manifest, taken
from release.order import Order, Source


def image_values(released: Iterable[ReleasedImage], order: Order) -> dict[str, Any]:
    """The values that name exactly these images."""
    values: dict[str, Any] = {}
    for one in released:
        place = {
            "registry": order.registry,
            "repository": one.image.repository,
            "digest": one.published.digest,
        }
        put(values, one.image.value, place)
    return values


def values_file(values: Mapping[str, Any], order: Order) -> str:
    """The same as a file beside the chart, for the chart of a checkout."""
    head = f"# Images of Tandem {order.version} by digest; the released chart has these values.\n"
    return head + yaml.safe_dump(dict(values), sort_keys=False)


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """A values.yaml with some of its values replaced where they stand; comments stay."""
    changes = dict(_leaves(values))
    lines = [
        f"{line.partition(':')[0]}: {json.dumps(changes.pop(path))}" if path in changes else line
        for line, path in lines_with_paths(text)
    ]
    if changes:
        missing = ", ".join(".".join(path) for path in changes)
        raise CannotContinueError(f"charts/tandem/values.yaml has no {missing} to write into.")
    return "\n".join(lines) + "\n"


def _leaves(values: Mapping[str, Any], *above: str) -> Iterable[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, *above, key)
        else:
            yield (*above, key), value


def package(
    chart: str, values: Mapping[str, Any], order: Order, source: Source, *, work: Path, target: Path
) -> Path:
    """Pack a chart whose own values are replaced by these."""
    staged = work / chart
    shutil.copytree(ROOT / "charts" / chart, staged, dirs_exist_ok=True)
    own = staged / "values.yaml"
    own.write_text(with_values(own.read_text(), values))
    target.mkdir(parents=True, exist_ok=True)
    run([helm_program(), "package", staged, "--destination", target])
    archive = target / f"{chart}-{order.version}.tgz"
    without_times(archive, epoch_s=source.epoch_s)
    return archive


def push(archive: Path, chart: str, order: Order) -> Published:
    """Push a packed chart, unless the registry holds the very same."""
    name = f"{order.registry}/charts/{chart}"
    target = f"{name}:{order.version}"
    there = published_manifest(target)
    if there and there.manifest["layers"][0]["digest"] == f"sha256:{sha256(archive)}":
        say(f"{target}: there already")
        return Published(name, there.digest)
    if there and not order.trial:
        raise CannotContinueError(taken(target, order))
    run([helm_program(), "push", archive, f"oci://{order.registry}/charts"])
    pushed = published_manifest(target)
    if pushed is None:
        raise CannotContinueError(f"helm pushed {target}, but the registry does not show it.")
    return Published(name, pushed.digest)
