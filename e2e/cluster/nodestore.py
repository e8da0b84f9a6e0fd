"""The image store inside the cluster's node."""

from __future__ import annotations

import subprocess

from e2e.cluster import names
from e2e.cluster.progress import CannotContinueError, run

_CTR = ("ctr", "--namespace=k8s.io")
# The kubelet's own second name for each image, and what `ctr import --digests` adds.
_BY_DIGEST = ("sha256:", "import-")


def ctr(*words: str) -> str:
    """Run containerd's client in the node."""
    return run(["docker", "exec", names.NODE, *_CTR, *words])


def digests() -> dict[str, str]:
    """Return every image's name and the digest it stands for."""
    rows = [line.split() for line in ctr("images", "list").splitlines()[1:]]
    return {row[0]: row[2] for row in rows if len(row) > 2}


def remove(tags: list[str]) -> None:
    """Remove images, and the second names that would keep their contents on the disk."""
    held = digests()
    named = {name: one for name, one in held.items() if not name.startswith(_BY_DIGEST)}
    gone = [f"docker.io/{tag}" for tag in tags]
    kept = {one for name, one in named.items() if name not in gone}
    nameless = [name for name, one in held.items() if name not in named and one not in kept]
    if words := [*(name for name in gone if name in held), *nameless]:
        ctr("images", "remove", "--sync", *words)


def importing(node: str = names.NODE) -> list[str]:
    """Return the command that reads an image archive into a node's store."""
    return ["docker", "exec", "--interactive", node, *_CTR, "images", "import", "-"]


def send_whole(tag: str, *, node: str = names.NODE) -> None:
    """Send all of an image; a pipe, where `kind load` writes a temporary file first."""
    with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saving:
        imported = subprocess.run(
            importing(node), stdin=saving.stdout, capture_output=True, text=True, check=False
        )
    if imported.returncode != 0 or saving.returncode != 0:
        raise CannotContinueError(f"{tag} could not be loaded: {imported.stderr.strip()}")
