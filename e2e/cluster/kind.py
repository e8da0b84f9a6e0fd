"""kind's part: a cluster of some name made from our node image, looked at, and removed if ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from e2e.cluster import docker, gobuild, names, nodeimage, rootfs
from e2e.cluster.progress import CannotContinueError, run, say
from e2e.cluster.tools import ensure_tools

_OWN_NETWORK = "networking:\n  disableDefaultCNI: true  # The node image brings a conflist.\n"


class Supply(StrEnum):
    """The source of the node image and the base images."""

    STOCK = "published"
    SELF_BUILT = "made here"


_NODE_IMAGES = {
    Supply.STOCK: nodeimage.stock_image,
    Supply.SELF_BUILT: nodeimage.self_built_image,
}


@dataclass(frozen=True, slots=True)
class KindCluster:
    """A cluster of one node that kind makes: its name, and where the key to it lies."""

    name: str
    kubeconfig: Path

    @property
    def node(self) -> str:
        """Return the container of its node."""
        return names.node_of(self.name)

    def containers(self) -> list[dict[str, Any]]:
        """Return what Docker knows of its containers."""
        label = f"label=io.x-k8s.kind.cluster={self.name}"
        listing = run(["docker", "ps", "--all", "--quiet", "--filter", label])
        if not listing.split():
            return []
        return list(json.loads(run(["docker", "inspect", *listing.split()])))

    def own_containers(self) -> list[dict[str, Any]]:
        """Return its containers; refuse a cluster that is not ours."""
        found = self.containers()
        refuse_strangers(found, name=self.name)
        return found

    def create(self, *, image: str, config: str) -> None:
        """Make it and wait until its node is Ready."""
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        run(
            [
                *(ensure_tools()["kind"], "create", "cluster", "--name", self.name),
                *("--config", "-", "--image", image, "--wait", "180s"),
                *("--kubeconfig", self.kubeconfig),
            ],
            stdin=config,
        )

    def delete(self) -> None:
        """Remove it; `own_containers` has checked that it is ours."""
        run(
            [
                *(ensure_tools()["kind"], "delete", "cluster", "--name", self.name),
                *("--kubeconfig", self.kubeconfig),
            ]
        )


def refuse_strangers(containers: list[dict[str, Any]], *, name: str) -> None:
    """Stop before touching a cluster of our name that is not ours."""
    key, _, value = names.OWNED.partition("=")
    for container in containers:
        if (container["Config"]["Labels"] or {}).get(key) != value:
            raise CannotContinueError(
                f"A kind cluster named `{name}` exists that does not carry our label "
                f"`{names.OWNED}`; remove it yourself (`kind delete cluster --name "
                f"{name}`) if it is not needed."
            )


def supply() -> Supply:
    """Return the source of images on this machine, by trying."""
    return choose_supply(can_pull=docker.can_pull, problem=_self_built_problem)


def choose_supply(*, can_pull: Callable[[], bool], problem: Callable[[], str | None]) -> Supply:
    """Return published images if a registry answers, else images made here.

    Raises:
        CannotContinueError: neither is possible; the text says why in one sentence.
    """
    if can_pull():
        say("images: a registry answers, published images are used")
        return Supply.STOCK
    if reason := problem():
        raise CannotContinueError(f"No registry answers and images cannot be made here: {reason}")
    say("images: no registry answers, images are made here")
    return Supply.SELF_BUILT


def node_image(chosen: Supply) -> str:
    """Return the image of a node, made or pulled if need be."""
    return _NODE_IMAGES[chosen]()


def network_of(chosen: Supply, config: str) -> str:
    """Return a cluster's description; our own node image has no kindnet and its own network."""
    return config if chosen is Supply.STOCK else config + _OWN_NETWORK


def _self_built_problem() -> str | None:
    return gobuild.go_problem() or rootfs.can_make()
