"""The binaries of a Kubernetes API for tests: downloaded where a release answers, else built."""

from __future__ import annotations

import shutil
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import gobuild, names
from e2e.cluster.progress import CannotContinueError
from e2e.cluster.store import entry_dir, fingerprint, is_whole, obtain, sha256

_RELEASES = "https://dl.k8s.io/release"
_ETCD_RELEASES = "https://github.com/etcd-io/etcd/releases/download"
_SCHEDULER = "kube-scheduler"
_PROBE_S = 4.0
_DOWNLOAD_S = 60.0


@dataclass(frozen=True, slots=True)
class ApiBinaries:
    """The paths of the programs of a control plane on loopback."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path


def api_binaries() -> ApiBinaries:
    """Return etcd, kube-apiserver, kube-controller-manager and kubectl, getting them if need be."""
    if _is_released_better():
        folder = obtain("released-api", _released_key(), doing="downloading", make=_download)
        return _at(folder, folder)
    return _at(gobuild.build(gobuild.ETCD), gobuild.build(gobuild.API))


def scheduler_binary() -> Path:
    """Return kube-scheduler of the same version, getting it if need be."""
    if gobuild.is_built(gobuild.NODE) or not releases_answer():
        return gobuild.build(gobuild.NODE) / _SCHEDULER
    key = fingerprint(names.KUBERNETES, names.ARCH)
    folder = obtain("released-scheduler", key, doing="downloading", make=_download_scheduler)
    return folder / _SCHEDULER


def _is_released_better() -> bool:
    if is_whole(entry_dir("released-api", _released_key())):
        return True
    if gobuild.is_built(gobuild.ETCD) and gobuild.is_built(gobuild.API):
        return False
    return releases_answer()


def releases_answer() -> bool:
    """Return whether Kubernetes' own releases can be downloaded from here."""
    try:
        with urllib.request.urlopen(
            f"{_RELEASES}/{names.KUBERNETES}/bin/linux/{names.ARCH}/kubectl.sha256",
            timeout=_PROBE_S,
        ) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def fetch_kubernetes_binary(name: str, target: Path) -> None:
    """Download one Kubernetes binary and check it against the published checksum."""
    address = f"{_RELEASES}/{names.KUBERNETES}/bin/linux/{names.ARCH}/{name}"
    fetch_checked(address, f"{address}.sha256", target)


def fetch_checked(address: str, checksum_address: str, target: Path) -> None:
    """Download a program whose SHA-256 is published beside it."""
    _fetch(address, target, _read(checksum_address).decode().split()[0])
    target.chmod(0o755)


def fetch_etcd(folder: Path) -> None:
    """Download etcd's release and keep the server of it."""
    stem = f"etcd-{names.ETCD}-linux-{names.ARCH}"
    release = f"{_ETCD_RELEASES}/{names.ETCD}"
    sums, archive = f"{release}/SHA256SUMS", f"{release}/{stem}.tar.gz"
    fetch_from_archive(archive, sums, member=f"{stem}/etcd", target=folder / "etcd")


def fetch_from_archive(address: str, sums_address: str, *, member: str, target: Path) -> None:
    """Download a release and keep one program of it; its SHA-256 stands in a list beside it."""
    name = address.rpartition("/")[2]
    sums = (line.split() for line in _read(sums_address).decode().splitlines())
    archive = target.with_name(name)
    _fetch(address, archive, next(words[0] for words in sums if words[-1:] == [name]))
    with tarfile.open(archive) as tar, target.open("wb") as output:
        program = tar.extractfile(member)
        if program is None:
            raise CannotContinueError(f"{name} holds no {member}.")
        shutil.copyfileobj(program, output)
    archive.unlink()
    target.chmod(0o755)


def _at(etcd: Path, api: Path) -> ApiBinaries:
    return ApiBinaries(
        etcd=etcd / "etcd",
        kube_apiserver=api / "kube-apiserver",
        kube_controller_manager=api / "kube-controller-manager",
        kubectl=api / "kubectl",
    )


def _released_key() -> str:
    return fingerprint(names.KUBERNETES, names.ETCD, names.ARCH)


def _download(folder: Path) -> None:
    for name in gobuild.API.binaries:
        fetch_kubernetes_binary(name, folder / name)
    fetch_etcd(folder)


def _download_scheduler(folder: Path) -> None:
    fetch_kubernetes_binary(_SCHEDULER, folder / _SCHEDULER)


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=_DOWNLOAD_S) as answer:
        return bytes(answer.read())


def _fetch(address: str, target: Path, expected: str) -> None:
    with (
        urllib.request.urlopen(address, timeout=_DOWNLOAD_S) as answer,
        target.open("wb") as handle,
    ):
        shutil.copyfileobj(answer, handle)
    actual = sha256(target)
    if actual != expected:
        raise CannotContinueError(f"{address} has checksum {actual}, published is {expected}.")
