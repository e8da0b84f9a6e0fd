"""The image of the kind node: kind's own with our label, or one made from Debian and Go modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.cluster import docker, gobuild, names, rootfs
from e2e.cluster.progress import CannotContinueError, run, say, step
from e2e.cluster.store import fingerprint, locked, obtain

_SOURCES = names.HERE / "node"
_PAUSE = "registry.k8s.io/pause:3.10"
_REPOSITORY = "tandem/node"
# kind's files: those that run, and those that are read.
_EXECUTABLE = ("usr/local/bin", "kind/bin")
_IMPORT = (
    *("ctr", "--namespace=k8s.io", "images", "import", "--label=io.cri-containerd.pinned=pinned"),
    *("--all-platforms", "--no-unpack", "--digests", "-"),
)
_AWAIT_CONTAINERD = (
    "for i in $(seq 150); do ctr version >/dev/null 2>&1 && exit; sleep 0.2; done; exit 1"
)
_STOP_CONTAINERD = (
    "pkill containerd;"
    " for i in $(seq 150); do pgrep containerd >/dev/null || exit 0; sleep 0.2; done"
)


def stock_image() -> str:
    """Return kind's own node image with our label on it, which its containers then carry too."""
    tag = f"{_REPOSITORY}:{fingerprint(names.STOCK_NODE_IMAGE)}"
    if docker.has_image(tag):
        say("node image: cached")
        return tag
    with step("node image", f"pulling {names.STOCK_NODE_IMAGE}"):
        recipe = f"FROM {names.STOCK_NODE_IMAGE}\nLABEL {names.OWNED}\n"
        run(["docker", "build", "-t", tag, "-"], stdin=recipe)
    return tag


def self_built_image() -> str:
    """Return a node image made here from Debian packages and Go modules, as kind makes its own."""
    base = rootfs.image(rootfs.NODE)
    proxy_base = rootfs.image(rootfs.PROXY)
    groups = (gobuild.ETCD, gobuild.API, gobuild.NODE, gobuild.COREDNS, gobuild.PROGRAMS)
    folders = {group.name: gobuild.build(group) for group in groups}
    binaries = {name: folders[group.name] / name for group in groups for name in group.binaries}
    identity = fingerprint(
        base,
        proxy_base,
        *(str(path.parent.name) for path in binaries.values()),
        names.KIND,
        files=(_SOURCES, Path(__file__)),
    )
    tag = f"{_REPOSITORY}:{identity}"
    with locked("node-image"):
        if docker.has_image(tag):
            say("node image: cached")
            return tag
        archive = obtain(
            "node-image",
            identity,
            doing="putting Debian, kind's files and Kubernetes together",
            make=lambda folder: _make(tag, base, proxy_base, binaries, folder / "image.tar"),
        )
        if not docker.has_image(tag):
            with step("node image", "loading it from the cache"):
                run(["docker", "load", "-i", archive / "image.tar"])
        docker.forget_older(_REPOSITORY, used={tag})
    return tag


def _make(tag: str, base: str, proxy_base: str, binaries: dict[str, Path], archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tandem-node-") as name:
        work = Path(name)
        stage = f"{tag}-stage"
        _build_node(work / "node", stage, base, binaries)
        images = _build_component_images(work, proxy_base, binaries)
        _commit_with_images(stage, images, tag)
        run(["docker", "rmi", stage, *images])
    run(["docker", "save", "-o", archive, tag])


def _build_node(context: Path, tag: str, base: str, binaries: dict[str, Path]) -> None:
    shutil.copytree(_SOURCES, context)
    _copy_kind_files(context / "kind-files")
    for name in ("kubeadm", "kubelet", "kubectl"):
        _place(binaries[name], context / "kubernetes" / name)
    _place(binaries["runc-filter"], context / "runc-filter")
    arguments = {"BASE_IMAGE": base, "VERSION": names.KUBERNETES, "PAUSE_IMAGE": _PAUSE}
    words = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    run(["docker", "build", *words, "-t", tag, context])


def _copy_kind_files(target: Path) -> None:
    """Copy what kind's base image holds, out of kind's own module."""
    source = gobuild.module_dir("kind", "sigs.k8s.io/kind") / "images" / "base" / "files"
    # Files of the module cache are read-only, and copies must be writable to go away again.
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        place = str(path.relative_to(target))
        runs = path.is_dir() or place.startswith(_EXECUTABLE)
        path.chmod(0o755 if runs else 0o644)


def _build_component_images(work: Path, proxy_base: str, binaries: dict[str, Path]) -> list[str]:
    """Make one image for each thing that kubeadm starts, under the names it asks for."""
    listing = run(
        [
            *(binaries["kubeadm"], "config", "images", "list"),
            *("--kubernetes-version", names.KUBERNETES),
        ]
    )
    wanted = [line for line in listing.split() if "/pause:" not in line] + [_PAUSE]
    for image in wanted:
        program = image.rsplit("/", 1)[1].split(":")[0]
        context = work / program
        _place(binaries[program], context / program)
        base = proxy_base if program == "kube-proxy" else "scratch"
        (context / "Dockerfile").write_text(
            f"FROM {base}\n"
            "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
            f"COPY {program} /usr/local/bin/{program}\n"
            f'ENTRYPOINT ["/usr/local/bin/{program}"]\n'
        )
        run(["docker", "build", "-t", image, context])
    return wanted


def _commit_with_images(stage: str, images: list[str], tag: str) -> None:
    """Put the component images into the node's containerd and keep the result as an image."""
    container = run(
        ["docker", "run", "--detach", "--entrypoint", "sleep", "--label", names.OWNED, stage, "900"]
    ).strip()
    try:
        run(["docker", "exec", "--detach", container, "containerd"])
        run(["docker", "exec", container, "sh", "-c", _AWAIT_CONTAINERD])
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as saving:
            imported = subprocess.run(
                ["docker", "exec", "-i", container, *_IMPORT],
                stdin=saving.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if imported.returncode != 0 or saving.returncode != 0:
            raise CannotContinueError(f"importing images into the node: {imported.stderr}")
        run(["docker", "exec", container, "sh", "-c", _STOP_CONTAINERD])
        entrypoint = json.dumps(["/usr/local/bin/entrypoint", "/sbin/init"])
        changes = ["--change", f"ENTRYPOINT {entrypoint}", "--change", "CMD []"]
        run(["docker", "commit", *changes, container, tag])
    finally:
        run(["docker", "rm", "--force", container])


def _place(source: Path, target: Path) -> None:
    """Put a large file into a build context without copying it where a link will do."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
