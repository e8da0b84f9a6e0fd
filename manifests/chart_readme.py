"""The chart's README: a row for each value, with the comment above it in `values.yaml`.

A comment belongs to the key below it. A key without one belongs to the key that it lies in.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

HEAD = """\
# tandem

This chart installs the operator of Tandem and the kinds `InferencePool` and `PoolRole`. `helm
upgrade` updates the kinds, and `helm uninstall` keeps them, and so every pool. `make crds` makes
this page from `values.yaml`.

```console
$ helm upgrade --install tandem oci://$REGISTRY/charts/tandem \\
    -n tandem-system --create-namespace --wait
$ helm test tandem -n tandem-system
```

Tandem publishes no images yet. `make release` pushes images and charts to a registry of yours. The
chart in it names these images by digest. [How to install](../../docs/how-to/install.md) shows each
step. From a checkout, name your registry in `image.registry`, `routerImage.registry`,
`launcherImage.registry` and `engineImages.cpu.registry`, or use `values.yaml` of a release. Pools
on GPUs run vLLM's own image.

A wrong value ends `helm` with a sentence that names it. `values.schema.json` holds types, ranges
and names. `templates/_checks.tpl` holds the other rules.

## Values

| value | default | meaning |
|---|---|---|
"""

_KEY = re.compile(r"( *)([A-Za-z][A-Za-z0-9]*):")


@dataclass(frozen=True, slots=True)
class ChartValue:
    """One documented value: its path, and what the comment above it says."""

    path: tuple[str, ...]
    meaning: str

    @property
    def name(self) -> str:
        """Return the name as `--set` has it."""
        return ".".join(self.path)


def render(text: str) -> str:
    """Return the whole page, from the text of `values.yaml`."""
    documented, defaults = tuple(documented_values(text)), yaml.safe_load(text)
    groups = {value.path[:depth] for value in documented for depth in range(1, len(value.path))}
    rows = (
        f"| `{value.name}` |{_default(value, defaults, is_group=value.path in groups)} |"
        f" {_cell(value.meaning)} |\n"
        for value in documented
    )
    return HEAD + "".join(rows)


def documented_values(text: str) -> Iterator[ChartValue]:
    """Yield every key that has a comment, in the order of the file."""
    comment: list[str] = []
    for line, path in lines_with_paths(text):
        if line.lstrip().startswith("#"):
            comment.append(line.strip(" #"))
            continue
        if path and comment:
            yield ChartValue(path, " ".join(comment))
        comment = []


def lines_with_paths(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each line of a `values.yaml`, and the path of the key at its beginning, if any."""
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        found = _KEY.match(line)
        if found:
            indent = len(found[1])
            parents = [parent for parent in parents if parent[0] < indent] + [(indent, found[2])]
        yield line, tuple(key for _, key in parents) if found else ()


def _default(value: ChartValue, defaults: Any, *, is_group: bool) -> str:
    if is_group:
        return ""
    for key in value.path:
        defaults = defaults[key]
    return f" `{_cell(json.dumps(defaults))}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")
