"""An image's way into the node: only the layers that the node lacks are sent.

An image of ours has hundreds of MB, and a change of our code touches few of them. Yet `docker save`
writes the whole image. Docker's overlay2 driver keeps each layer in a directory of its own, so the
missing ones can be packed from there into an OCI archive that names the others. Where that is not
possible (another driver, an engine elsewhere, a layer that uses what plain tar leaves out), the
caller sends the whole image.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from e2e.cluster import names, nodestore
from e2e.cluster.progress import CannotContinueError, run
from e2e.cluster.store import sha256

_BLOBS = "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"
_PACKED = "/kind/tandem-layers.json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_CONFIG_FIELDS = (
    *("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels"),
    "StopSignal",
)
_OPAQUE = "trusted.overlay.opaque"
_FILE_CAPABILITY = "security.capability"


class NotPossibleError(Exception):
    """An image has to be sent whole; the text says why."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A layer, manifest or configuration of an image: its digest and size."""

    digest: str
    size: int

    def descriptor(self, media_type: str) -> dict[str, Any]:
        """Return the reference of manifests to it."""
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


def copy_missing(tag: str) -> int:
    """Send the layers of an image that the node lacks; return how many they were.

    Raises:
        NotPossibleError: the image has to be sent whole.
    """
    details = json.loads(run(["docker", "image", "inspect", tag]))[0]
    diff_ids = [str(one) for one in details["RootFS"]["Layers"]]
    folders = layer_folders(details.get("GraphDriver") or {}, count=len(diff_ids))
    packed = _packed_before()
    known = best_prefix(diff_ids, packed, _snapshots())
    if not known:
        raise NotPossibleError("the node has none of its layers")
    with tempfile.TemporaryDirectory(prefix="tandem-layers-") as work:
        lower = [Blob(one, size) for one, size in _sizes_in_node(known).items()]
        upper = [pack(folder, Path(work)) for folder in folders[len(known) :]]
        _import(_archive_parts(tag, details, [*lower, *upper]), upper, Path(work))
    sent = zip(diff_ids[len(known) :], (layer.digest for layer in upper), strict=True)
    _remember_packed(packed | dict(sent))
    return len(upper)


def best_prefix(diff_ids: list[str], packed: dict[str, str], snapshots: set[str]) -> list[str]:
    """Return the lowest layers that the node has, under Docker's digests or our own."""
    ours = [packed.get(one, one) for one in diff_ids]
    found = [one[: known_prefix(chain_ids(one), snapshots)] for one in (ours, diff_ids)]
    return max(found, key=len)


def chain_ids(diff_ids: list[str]) -> list[str]:
    """Return the names of the stacks of the first 1, 2, ... layers, as OCI defines them."""
    chains: list[str] = []
    for one in diff_ids:
        below = chains[-1] if chains else None
        chains.append(one if below is None else _digest(f"{below} {one}".encode()))
    return chains


def known_prefix(chains: list[str], snapshots: set[str]) -> int:
    """Return the number of the lowest layers that are unpacked already."""
    held = 0
    while held < len(chains) and chains[held] in snapshots:
        held += 1
    return held


def layer_folders(driver: dict[str, Any], *, count: int) -> list[Path]:
    """Return the directories of an image's layers, the lowest first."""
    if driver.get("Name") != "overlay2":
        raise NotPossibleError("Docker keeps its layers elsewhere than in overlay2")
    lower = [path for path in driver["Data"].get("LowerDir", "").split(":") if path]
    folders = [Path(path) for path in (*reversed(lower), driver["Data"]["UpperDir"])]
    if len(folders) != count or not all(os.access(folder, os.R_OK) for folder in folders):
        raise NotPossibleError("Docker's layers are out of reach")
    return folders


def pack(folder: Path, work: Path) -> Blob:
    """Write a layer's directory as a tar file named by its digest; removed files become marks."""
    unfinished = work / "layer"
    with tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as tar:
        for place, directories, files in os.walk(folder):
            for name in sorted((*directories, *files)):
                _add(tar, folder, Path(place) / name)
    digest = sha256(unfinished)
    size = unfinished.stat().st_size
    unfinished.rename(work / digest)
    return Blob(f"sha256:{digest}", size)


def _add(tar: tarfile.TarFile, folder: Path, path: Path) -> None:
    place = path.relative_to(folder)
    facts = path.lstat()
    if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:
        tar.addfile(tarfile.TarInfo(str(place.parent / f".wh.{place.name}")))
        return
    attributes = os.listxattr(path, follow_symlinks=False)
    if _FILE_CAPABILITY in attributes:
        raise NotPossibleError(f"/{place} has capabilities, which plain tar leaves out")
    tar.add(path, arcname=str(place), recursive=False)
    if _OPAQUE in attributes and os.getxattr(path, _OPAQUE) == b"y":
        tar.addfile(tarfile.TarInfo(str(place / ".wh..wh..opq")))


def _archive_parts(tag: str, details: dict[str, Any], layers: list[Blob]) -> dict[str, bytes]:
    """Return the small files of an OCI archive: configuration, manifest and index."""
    settings = {key: details["Config"][key] for key in _CONFIG_FIELDS if details["Config"].get(key)}
    config = {
        "created": details["Created"],
        "architecture": details["Architecture"],
        "os": details["Os"],
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }
    parts: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _put(parts, config).descriptor(_CONFIG),
        "layers": [layer.descriptor(_LAYER) for layer in layers],
    }
    described = _put(parts, manifest).descriptor(_MANIFEST)
    described["annotations"] = {"io.containerd.image.name": f"docker.io/{tag}"}
    parts["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()
    return parts


def _put(parts: dict[str, bytes], document: dict[str, Any]) -> Blob:
    content = json.dumps(document, sort_keys=True).encode()
    digest = _digest(content)
    parts[f"blobs/sha256/{digest.removeprefix('sha256:')}"] = content
    return Blob(digest, len(content))


def _import(parts: dict[str, bytes], layers: list[Blob], work: Path) -> None:
    with subprocess.Popen(
        nodestore.importing(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as importing:
        assert importing.stdin is not None
        _write_archive(importing.stdin, parts, layers, work)
        output, _ = importing.communicate()
    if importing.returncode != 0:
        raise NotPossibleError(output.decode(errors="replace").strip())


def _write_archive(
    stream: IO[bytes], parts: dict[str, bytes], layers: list[Blob], work: Path
) -> None:
    with tarfile.open(fileobj=stream, mode="w|") as tar:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        for layer in layers:
            file = layer.digest.removeprefix("sha256:")
            tar.add(work / file, arcname=f"blobs/sha256/{file}")


def _snapshots() -> set[str]:
    listing = nodestore.ctr("snapshots", "list")
    return {line.split()[0] for line in listing.splitlines()[1:] if line.split()}


def _packed_before() -> dict[str, str]:
    """Return Docker's digest of a layer -> the digest of our archive of it, kept by the node."""
    reading = f"cat {_PACKED} 2>/dev/null || echo '{{}}'"
    return dict(json.loads(run(["docker", "exec", names.NODE, "sh", "-c", reading])))


def _remember_packed(packed: dict[str, str]) -> None:
    writing = ["docker", "exec", "--interactive", names.NODE, "sh", "-c", f"cat > {_PACKED}"]
    run(writing, stdin=json.dumps(packed))


def _sizes_in_node(digests: list[str]) -> dict[str, int]:
    """Return the sizes of layers in the node's own store; raise if one is not there."""
    files = [f"{_BLOBS}/{one.removeprefix('sha256:')}" for one in digests]
    try:
        sizes = run(["docker", "exec", names.NODE, "stat", "--format=%s", *files]).split()
    except CannotContinueError as error:
        raise NotPossibleError("the node has dropped the archives of its layers") from error
    return dict(zip(digests, map(int, sizes), strict=True))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
