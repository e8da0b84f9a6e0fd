"""The images of a release: labelled with their version, named by digest, pushed if asked to."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from e2e.cluster import docker, images
from e2e.cluster.images import Image
from e2e.cluster.progress import CannotContinueError, answers, run, say, step
from e2e.cluster.tools import CRANE, ensure
from release.order import Order, Source

_ANSWER_S = 60.0
# What registries answer for a tag that they do not have; any other failure says nothing of it.
_NOT_THERE = ("MANIFEST_UNKNOWN", "NAME_UNKNOWN", "404 Not Found")


@dataclass(frozen=True, slots=True)
class Published:
    """What a registry holds under a name: an image or a chart, and the digest that names it."""

    name: str
    digest: str

    @property
    def reference(self) -> str:
        """The name that always means the same contents."""
        return f"{self.name}@{self.digest}"

    @property
    def purl(self) -> str:
        """Its package URL, with the registry where the name says one."""
        path, _, last = self.name.rpartition("/")
        title, _, tag = last.partition(":")
        qualifiers = {"repository_url": _repository(path, title), "tag": tag}
        words = urlencode({key: value for key, value in qualifiers.items() if value}, safe="/:")
        return f"pkg:oci/{title}@{quote(self.digest)}" + (f"?{words}" if words else "")


def _repository(path: str, title: str) -> str:
    """The repository in its registry; what was made here, such as `tandem/python`, is in none."""
    if not path:
        return f"docker.io/library/{title}"
    host = path.partition("/")[0]
    return f"{path}/{title}" if host == "localhost" or set(host) & set(".:") else ""


@dataclass(frozen=True, slots=True)
class ReleasedImage:
    """A row of the table of images, as this release has it."""

    image: Image
    local_tag: str
    published: Published


def release_image(image: Image, order: Order, source: Source, work: Path) -> ReleasedImage:
    """Build an image, label it, find its digest, and push it if the order says so."""
    tag = _label(image, images.build(image), order, source)
    name = f"{order.registry}/{image.repository}"
    with step(name, "pushing" if order.push else "finding its digest"):
        digest = _ship(tag, f"{name}:{order.version}", order, work)
    return ReleasedImage(image, tag, Published(name, digest))


def _label(image: Image, built: str, order: Order, source: Source) -> str:
    """Docker has the labelled image of the same commit in its cache, so its digest stays."""
    labels = {
        "title": image.repository.rpartition("/")[2],
        "version": order.version,
        "revision": source.revision,
    }
    words = " ".join(f"org.opencontainers.image.{key}={value}" for key, value in labels.items())
    tag = f"{image.repository}:release-{order.version}"
    before = _image_id(tag) if docker.has_image(tag) else None
    run(["docker", "build", "--tag", tag, "-"], stdin=f"FROM {built}\nLABEL {words}\n")
    if before not in {None, _image_id(tag)}:
        # Nameless now, it would keep gigabytes of an older build.
        answers(["docker", "rmi", str(before)], timeout_s=_ANSWER_S)
    return tag


def _ship(tag: str, target: str, order: Order, work: Path) -> str:
    there = published_manifest(target) if order.push else None
    if there and there.manifest["config"]["digest"] == _image_id(tag):
        say(f"{target}: there already")
        return there.digest
    archive = work / "image.tar"
    try:
        run(["docker", "save", "--output", archive, tag])
        if there or not order.push:
            digest = crane("digest", "--tarball", archive).strip()
        if there and not order.trial and there.digest != digest:
            raise CannotContinueError(taken(target, order))
        if order.push:
            digest = crane("push", archive, target).strip().rpartition("@")[2]
        return digest
    finally:
        archive.unlink(missing_ok=True)


def taken(target: str, order: Order) -> str:
    """Why a release does not replace one of the same version."""
    return (
        f"{target} is in the registry with other contents; release another version than "
        f"{order.version}, or write TRIAL=1 to replace it."
    )


def _image_id(tag: str) -> str:
    return run(["docker", "image", "inspect", "--format", "{{.Id}}", tag]).strip()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that a registry holds."""

    digest: str
    manifest: dict[str, Any]


def published_manifest(target: str) -> Manifest | None:
    """What a registry holds under a tag, or nothing; one that cannot tell ends the release."""
    try:
        text = run([_crane_program(), "manifest", target], timeout_s=_ANSWER_S)
    except CannotContinueError as error:
        if any(code in str(error) for code in _NOT_THERE):
            return None
        raise
    return Manifest(f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", json.loads(text))


def crane(*words: str | Path) -> str:
    """Run crane, which knows registries, and archives that Docker saves."""
    return run([_crane_program(), *words])


@functools.cache
def _crane_program() -> Path:
    return ensure(CRANE)


def base_digest() -> Published:
    """The base of our images, by the digest of what was really used."""
    base = images.base_image()
    name, _, digest = base.partition("@")
    return Published(name, digest or _image_id(base))
