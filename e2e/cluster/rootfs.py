"""Debian root file systems made from this machine's own package sources, as Docker images.

They stand in for base images where none can be pulled. The machine's CA bundle goes in, because a
machine without a registry often reaches its package indexes through a proxy with a CA of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import docker, names
from e2e.cluster.progress import CannotContinueError, run, say
from e2e.cluster.store import fingerprint, obtain

_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_SUITE = "bookworm"
_DOCS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True, slots=True)
class RootFs:
    """A Debian root file system: its name and the packages it holds beside the essential ones."""

    name: str
    packages: tuple[str, ...]


PYTHON = RootFs("base-python", ("ca-certificates", "python3", "python3-venv"))
PROXY = RootFs("base-proxy", ("conntrack", "iptables", "kmod", "nftables"))
NODE = RootFs(
    "base-node",
    (
        *("bash", "ca-certificates", "containerd", "containernetworking-plugins", "curl", "dbus"),
        *("conntrack", "ebtables", "ethtool", "hostname", "iproute2", "iptables", "jq", "kmod"),
        *("libseccomp2", "mount", "nftables", "pigz", "procps", "runc", "socat", "systemd"),
        *("systemd-sysv", "util-linux"),
    ),
)


def image(rootfs: RootFs) -> str:
    """Return the Docker image of a root file system, making what is missing."""
    tag = f"tandem/{rootfs.name}:{_key(rootfs)}"
    archive = obtain(
        rootfs.name,
        _key(rootfs),
        doing="installing Debian packages into a root file system",
        make=lambda folder: _make(rootfs, folder / "rootfs.tar"),
    )
    if not docker.has_image(tag):
        say(f"{rootfs.name}: importing")
        certificates = f"ENV SSL_CERT_FILE={_CA_BUNDLE} REQUESTS_CA_BUNDLE={_CA_BUNDLE}"
        labels = f"LABEL {names.OWNED}"
        run(
            ["docker", "import", "-c", certificates, "-c", labels, archive / "rootfs.tar", tag],
        )
        docker.forget_older(f"tandem/{rootfs.name}", used={tag})
    return tag


def can_make() -> str | None:
    """Return why root file systems cannot be made here, in one sentence, or nothing."""
    if not Path("/etc/debian_version").exists():
        return "Images cannot be pulled, and making them needs a Debian machine."
    if os.geteuid() != 0:
        return "Images cannot be pulled, and making them needs root."
    return None


def _key(rootfs: RootFs) -> str:
    bundle = _CA_BUNDLE.read_bytes().hex() if _CA_BUNDLE.exists() else ""
    return fingerprint(rootfs.name, *rootfs.packages, _SUITE, names.ARCH, bundle, "2")


def _make(rootfs: RootFs, target: Path) -> None:
    if problem := can_make():
        raise CannotContinueError(problem)
    docker.install_packages("mmdebstrap")
    hooks = [f'--customize-hook=rm -rf "$1"{path}' for path in _DOCS]
    hooks.append('--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*')
    if _CA_BUNDLE.exists() and "ca-certificates" in rootfs.packages:
        hooks.append(f'--customize-hook=cat {_CA_BUNDLE} > "$1"{_CA_BUNDLE}')
    run(
        [
            *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"),
            f"--include={','.join(rootfs.packages)}",
            *("--aptopt=Apt::Install-Recommends false", *hooks),
            *(_SUITE, target),
        ],
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )
