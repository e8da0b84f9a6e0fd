"""A kind cluster with nothing in it, for as long as something needs one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import kind
from e2e.cluster.kind import KindCluster
from e2e.cluster.progress import step
from e2e.cluster.tools import ensure_tools
from e2e.quickstart.registry import CONTAINERD_PATCH

NAME = "tandem-quickstart"
_CONFIG = f"""kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
{CONTAINERD_PATCH}"""


@contextmanager
def bare_cluster(kubeconfig: Path) -> Iterator[KindCluster]:
    """Make a cluster for the block and remove it; also one that a killed run left."""
    ensure_tools()
    cluster = KindCluster(NAME, kubeconfig)
    if cluster.own_containers():
        _delete(cluster)
    supply = kind.supply()
    image = kind.node_image(supply)
    try:
        with step(f"cluster {NAME}", f"creating it from {image}"):
            cluster.create(image=image, config=kind.network_of(supply, _CONFIG))
        yield cluster
    finally:
        _delete(cluster)


def _delete(cluster: KindCluster) -> None:
    with step(f"cluster {NAME}", "removing it"):
        cluster.delete()
