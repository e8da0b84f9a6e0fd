"""A second node beside the cluster's own, for as long as something needs one.

kind adds no node to a cluster that exists. This one joins as kind's would, from the same image. It
takes some gigabytes of the disk and minutes to fill, so that no test of every day makes one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from e2e.cluster import names, nodestore
from e2e.cluster.progress import CannotContinueError, answers, run, step
from e2e.cluster.tools import kubectl

NAME = f"{names.CLUSTER}-worker"
_NETWORK = "kind"
_UP_S = 60.0
_OWN_CONFLIST = "/etc/cni/net.d/10-tandem.conflist"
_PODS = {names.NODE: "10.244.0.0/24", NAME: "10.244.1.0/24"}
"""Our own node image has each node's pods in a network of its own; kind's sees to this itself."""


@contextmanager
def second_node(*, images: Sequence[str]) -> Iterator[str]:
    """Yield the name of a Ready node that holds these images; it is removed after the block."""
    remove()
    try:
        with step(f"node {NAME}", "making it"):
            _start()
            _join()
        with step(f"node {NAME}", f"loading {len(images)} images"):
            for image in images:
                nodestore.send_whole(image, node=NAME)
        yield NAME
    finally:
        remove()


def remove() -> None:
    """Remove the node and the routes to it, also those that a killed run left."""
    ours = ("--filter", f"name=^{NAME}$", "--filter", f"label={names.OWNED}")
    if not run(["docker", "ps", "--all", "--quiet", *ours]).strip():
        return
    with suppress(CannotContinueError):
        kubectl("delete", "node", NAME, "--ignore-not-found")
    run(["docker", "rm", "--force", "--volumes", NAME])
    with suppress(CannotContinueError):
        _on(names.NODE, "ip", "route", "del", _PODS[NAME])


def _start() -> None:
    own = _inspected(names.NODE)["Config"]
    environment = [word for pair in own["Env"] for word in ("--env", pair)]
    run(
        [
            *("docker", "run", "--detach", "--tty", "--privileged", "--cgroupns=private"),
            *("--name", NAME, "--hostname", NAME, "--network", _NETWORK),
            *("--label", names.OWNED, "--restart=on-failure:1"),
            *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
            *("--security-opt", "label=disable", "--tmpfs", "/tmp", "--tmpfs", "/run"),
            *("--volume", "/var", "--volume", "/lib/modules:/lib/modules:ro"),
            *environment,
            own["Image"],
        ]
    )
    _wait(["docker", "exec", NAME, "systemctl", "is-active", "--quiet", "containerd"])
    if answers(["docker", "exec", NAME, "test", "-e", _OWN_CONFLIST], timeout_s=20):
        _on(NAME, "sed", "-i", f"s|{_PODS[names.NODE]}|{_PODS[NAME]}|", _OWN_CONFLIST)
        for here, there in ((NAME, names.NODE), (names.NODE, NAME)):
            _on(here, "ip", "route", "replace", _PODS[there], "via", _address(there))


def _join() -> None:
    words = _on(names.NODE, "kubeadm", "token", "create", "--print-join-command").split()
    _on(NAME, *words, "--ignore-preflight-errors=all")
    kubectl("wait", f"node/{NAME}", "--for=condition=Ready", "--timeout=90s")


def _wait(command: list[str]) -> None:
    deadline_s = time.monotonic() + _UP_S
    while not answers(command, timeout_s=20):
        if time.monotonic() > deadline_s:
            raise CannotContinueError(f"Node {NAME} did not come up; see `docker logs {NAME}`.")
        time.sleep(0.5)


def _address(node: str) -> str:
    return str(_inspected(node)["NetworkSettings"]["Networks"][_NETWORK]["IPAddress"])


def _inspected(node: str) -> dict[str, Any]:
    return dict(json.loads(run(["docker", "inspect", node]))[0])


def _on(node: str, *words: str) -> str:
    return run(["docker", "exec", node, *words])
