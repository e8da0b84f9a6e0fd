"""Static binaries of Kubernetes, etcd, CoreDNS, kind and crane, from committed Go modules.

Used where no release can be downloaded. Each group is a cache entry of its own, so that a test that
needs an API server does not wait for a kubelet.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import names
from e2e.cluster.progress import CannotContinueError, run
from e2e.cluster.store import entry_dir, fingerprint, is_whole, obtain

_GO_MINIMUM = (1, 21)  # From here on Go fetches by itself the newer toolchain a module asks for.


@dataclass(frozen=True, slots=True)
class Group:
    """Binaries that are built together: `binaries` maps a file name to its Go package.

    `module` is the folder of their go.mod: a name under `modules/`, or an absolute path.
    """

    name: str
    module: str
    binaries: dict[str, str]
    ldflags: str = "-s -w"
    tags: str = ""


def _kubernetes(*commands: str) -> dict[str, str]:
    return {command: f"k8s.io/kubernetes/cmd/{command}" for command in commands}


_VERSION = {
    "gitVersion": names.KUBERNETES,
    "gitMajor": "1",
    "gitMinor": names.KUBERNETES.split(".")[1],
}
# kubeadm refuses to run without knowing its own version.
_KUBERNETES_LDFLAGS = "-s -w " + " ".join(
    f"-X k8s.io/component-base/version.{key}={value}" for key, value in _VERSION.items()
)

ETCD = Group("etcd", "etcd", {"etcd": "go.etcd.io/etcd/server/v3"})
API = Group(
    "kubernetes-api",
    "kubernetes",
    _kubernetes("kube-apiserver", "kube-controller-manager", "kubectl"),
    _KUBERNETES_LDFLAGS,
)
NODE = Group(
    "kubernetes-node",
    "kubernetes",
    _kubernetes("kube-scheduler", "kube-proxy", "kubelet", "kubeadm"),
    _KUBERNETES_LDFLAGS,
)
COREDNS = Group("coredns", "coredns", {"coredns": "github.com/coredns/coredns"})
KIND = Group("kind", "kind", {"kind": "sigs.k8s.io/kind"})
CRANE = Group("crane", "crane", {"crane": "github.com/google/go-containerregistry/cmd/crane"})
# Of all ways to discover targets, the one used here; the others are most of the time to build.
PROMETHEUS = Group(
    "prometheus",
    "prometheus",
    {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
    tags="remove_all_sd,enable_kubernetes_sd",
)
# Checks and tests the alerts. A module of its own: Prometheus is not built anew for it.
PROMTOOL = Group(
    "promtool",
    "promtool",
    {"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
    tags="remove_all_sd",
)
# Says what NetworkPolicies let through; the node's network enforces none.
POLICIES = Group("policy-engine", "policies", {"reach": "."})
# Judges objects, and applies them, as Flux and Argo CD do: by the libraries that they are made of.
GITOPS = Group("gitops", "gitops", {"gitops": "."})
PROGRAMS = Group("programs", "node", {"runc-filter": "./runc-filter", "pause": "./pause"})


def build(group: Group) -> Path:
    """Return the directory that holds a group's binaries, building them first if need be."""
    return obtain(
        group.name,
        _key(group),
        doing="building from Go modules (minutes, once)",
        make=lambda target: _compile(group, target),
    )


def is_built(group: Group) -> bool:
    """Return whether a group's binaries are in the cache and unchanged."""
    return is_whole(entry_dir(group.name, _key(group)))


def module_dir(module: str, path: str) -> Path:
    """Return the folder in which Go keeps the source of a dependency of one of our modules."""
    run([_go(), "mod", "download", path], cwd=names.MODULES / module, env=_environment())
    listing = run(
        [_go(), "list", "-m", "-f", "{{.Dir}}", path],
        cwd=names.MODULES / module,
        env=_environment(),
    )
    return Path(listing.strip())


def go_problem() -> str | None:
    """Return why this machine cannot build Go modules, in one sentence, or nothing."""
    program = shutil.which("go")
    if program is None:
        return "Go is not installed (1.21 or newer builds Kubernetes where no image can be pulled)."
    words = run([program, "env", "GOVERSION"]).strip().removeprefix("go").split(".")
    if tuple(int(word) for word in words[:2]) < _GO_MINIMUM:
        return f"Go {'.'.join(words)} is too old; 1.21 or newer is needed."
    return None


def _go() -> str:
    if problem := go_problem():
        raise CannotContinueError(problem)
    return shutil.which("go") or "go"


def _environment() -> dict[str, str]:
    # Two packages at a time: a developer's machine stays usable, and memory stays below 3 GiB.
    return os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-p=2 -buildvcs=false", "GOWORK": "off"}


def _key(group: Group) -> str:
    sources = names.MODULES / group.module
    options = " ".join(filter(None, (group.ldflags, group.tags)))
    return fingerprint(json.dumps(group.binaries), options, names.ARCH, files=(sources,))


def _compile(group: Group, target: Path) -> None:
    for binary, package in group.binaries.items():
        run(
            [
                *(_go(), "build", "-trimpath", "-tags", group.tags, "-ldflags", group.ldflags),
                *("-o", target / binary, package),
            ],
            cwd=names.MODULES / group.module,
            env=_environment(),
        )
