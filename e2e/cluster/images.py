"""Our images: built when their inputs changed, and put into the cluster's node when it lacks them.

A tag is a hash of an image's inputs, so that equal tags mean equal contents and a Deployment
whose image did not change is not rolled.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import cluster, docker, layers, names, nodestore, rootfs
from e2e.cluster.progress import CannotContinueError, run, say, step
from e2e.cluster.store import fingerprint, locked, replace_file

_IMAGES_ENV = names.BUILD / "images.env"
_IMAGES_YAML = names.BUILD / "images.yaml"
# The node has its images from no registry. An image without one has this one to Kubernetes.
REGISTRY = "docker.io"
_SLIM = (
    *("images/slim", "images/uv.txt", "pyproject.toml", "uv.lock", "LICENSE"),
    *("contracts/tandem_contracts", "operator/tandem_operator"),
    *("engine/tandem_engine", "engine/tandem_routing", "engine/tandem_least_squares"),
)


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its repository, how others find it, and what goes into it.

    `variable` names it in `build/images.env`, `value` is its path in the values of charts/tandem.
    """

    repository: str
    variable: str
    value: tuple[str, ...]
    dockerfile: str
    inputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """Return the repository and a hash of every input as it is now."""
        return self.tag_in(names.ROOT)

    def tag_in(self, root: Path) -> str:
        """Return the repository and a hash of every input as it lies under another root."""
        inputs = (root / one for one in self.inputs)
        return f"{self.repository}:{fingerprint(*self.arguments, files=inputs, root=root)}"


def _slim(name: str, *, value: str) -> Image:
    recipe, arguments = "images/slim/Dockerfile", (f"EXTRA={name}",)
    variable = f"{name.upper()}_IMAGE"
    return Image(f"tandem/{name}", variable, (value,), recipe, _SLIM, arguments)


OPERATOR = _slim("operator", value="image")
ROUTER = _slim("router", value="routerImage")
LAUNCHER = Image(
    "tandem/launcher",
    "LAUNCHER_IMAGE",
    ("launcherImage",),
    "images/launcher/Dockerfile",
    (
        *("images/launcher", "LICENSE", "contracts/tandem_contracts"),
        *("engine/tandem_engine/__init__.py", "engine/tandem_engine/serve"),
    ),
)
ENGINE_CPU = Image(
    "tandem/engine-cpu",
    "ENGINE_CPU_IMAGE",
    ("engineImages", "cpu"),
    "images/engine/Dockerfile",
    ("images/engine", "images/uv.txt", "engine/pyproject.toml", "engine/uv.lock"),
)
IMAGES = (OPERATOR, ROUTER, LAUNCHER, ENGINE_CPU)


def build_all() -> dict[str, str]:
    """Build what is missing, write `build/images.*` and return variable -> tag."""
    with locked("images"):
        tags = {image.variable: build(image) for image in IMAGES}
        replace_file(_IMAGES_ENV, "".join(f"{name}={tag}\n" for name, tag in tags.items()))
        replace_file(_IMAGES_YAML, json.dumps(chart_values(tags), indent=2) + "\n")
    return tags


def chart_values(tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of charts/tandem that install these images; YAML reads their JSON."""
    values: dict[str, Any] = {"global": {"imageRegistry": REGISTRY}}
    for image in IMAGES:
        put(values, image.value, _named(tags[image.variable]))
    return values


def put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the value at a path of a chart's values."""
    *parents, last = path
    for parent in parents:
        values = values.setdefault(parent, {})
    values[last] = value


def _named(tag: str) -> dict[str, str]:
    repository, _, version = tag.rpartition(":")
    return {"repository": repository, "tag": version}


def build(image: Image) -> str:
    """Build one image unless the engine holds it already."""
    if docker.has_image(image.tag):
        say(f"{image.tag}: cached")
        return image.tag
    base = base_image()
    with tempfile.TemporaryDirectory(prefix="tandem-context-") as context:
        _stage(image, Path(context))
        tag = image.tag_in(Path(context))  # Of what is built, should a file change meanwhile.
        values = (f"BASE_IMAGE={base}", *image.arguments)
        with step(tag, "building"):
            run(
                [
                    *("docker", "build", "--network=host", "-f", Path(context) / image.dockerfile),
                    *(word for value in values for word in ("--build-arg", value)),
                    *("--label", names.OWNED, "-t", tag, context),
                ]
            )
    return tag


def base_image() -> str:
    """Return the published Python image where it can be had, else one made from Debian."""
    if docker.has_image(names.STOCK_PYTHON_IMAGE) or docker.can_pull():
        return names.STOCK_PYTHON_IMAGE
    return rootfs.image(rootfs.PYTHON)


def load(tags: Iterable[str]) -> None:
    """Put images into the node unless they are there, and remove older ones of ours."""
    wanted = list(tags)
    if not cluster.is_running():
        raise CannotContinueError("There is no cluster to load images into; run `make cluster-up`.")
    with locked("load"):
        present = nodestore.digests()
        for tag in wanted:
            if f"docker.io/{tag}" in present:
                say(f"{tag}: in the cluster")
                continue
            with step(tag, "loading into the cluster"):
                _copy_into_node(tag)
        # Only now: the older image has most of the newer one's layers.
        _forget_older(wanted, present)


def _copy_into_node(tag: str) -> None:
    try:
        count = layers.copy_missing(tag)
    except layers.NotPossibleError as reason:
        say(f"{tag}: sending all of it ({reason})")
        nodestore.send_whole(tag)
    else:
        say(f"{tag}: sent {count} layers that the node lacked")


def _forget_older(wanted: list[str], present: Iterable[str]) -> None:
    """Remove our older images that nothing uses, and from the node those that Docker forgot."""
    in_use = {name.removeprefix(f"{REGISTRY}/") for name in cluster.images_in_use()}
    used = in_use | set(wanted)
    repositories = {tag.partition(":")[0] for tag in wanted}
    for repository in repositories:
        docker.forget_older(repository, used=used)
    ours = [name.removeprefix("docker.io/") for name in present]
    nodestore.remove(
        [
            one
            for one in ours
            if one not in used
            and any(docker.is_ours(one, repository) for repository in repositories)
            and not docker.has_image(one)
        ]
    )


def _stage(image: Image, context: Path) -> None:
    """Copy the inputs, and nothing else, into a build context."""
    for one in image.inputs:
        source, target = names.ROOT / one, context / one
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
