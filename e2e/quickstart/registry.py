"""A registry on loopback that the node of a kind cluster pulls from, as kind documents it.

The host reaches it at a port of 127.0.0.1. The node knows the same name, and is told to ask the
registry's container for it, over the network that kind gives both.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import docker, names
from e2e.cluster.kind import KindCluster
from e2e.cluster.ports import free_port
from e2e.cluster.progress import CannotContinueError, answers, run, step
from e2e.cluster.store import fingerprint
from e2e.cluster.tools import CRANE, ensure

NAME = "tandem-quickstart-registry"
_REPOSITORY = "tandem/registry"
_NETWORK = "kind"
_PORT = 5000
_UP_S = 30.0
_RECIPE = f"""FROM scratch
COPY crane /crane
ENTRYPOINT ["/crane", "registry", "serve", "--address=:{_PORT}", "--disk=/blobs"]
"""
CONTAINERD_PATCH = """containerdConfigPatches:
  - |-
    [plugins."io.containerd.grpc.v1.cri".registry]
      config_path = "/etc/containerd/certs.d"
"""


@dataclass(frozen=True, slots=True)
class LoopbackRegistry:
    """A running registry: `host` is its name for the machine and for the node alike."""

    host: str

    def introduce_to(self, cluster: KindCluster) -> None:
        """Let the node of a cluster pull from it."""
        run(["docker", "network", "connect", _NETWORK, NAME])
        folder = f"/etc/containerd/certs.d/{self.host}"
        writing = f"mkdir -p '{folder}' && cat > '{folder}/hosts.toml'"
        run(
            ["docker", "exec", "--interactive", cluster.node, "sh", "-c", writing],
            stdin=f'[host."http://{NAME}:{_PORT}"]\n',
        )


@contextmanager
def loopback_registry() -> Iterator[LoopbackRegistry]:
    """Run a registry for the block; it holds nothing at first, and nothing of it stays."""
    remove()
    port = free_port()
    try:
        with step("registry", f"starting it at 127.0.0.1:{port}"):
            run(
                [
                    *("docker", "run", "--detach", "--name", NAME, "--label", names.OWNED),
                    *("--publish", f"127.0.0.1:{port}:{_PORT}", "--volume", "/blobs", _image()),
                ]
            )
            _await_answer(f"127.0.0.1:{port}")
        yield LoopbackRegistry(f"127.0.0.1:{port}")
    finally:
        remove()


def remove() -> None:
    """Remove the registry with its contents, also one that a killed run left."""
    ours = ("--filter", f"name=^{NAME}$", "--filter", f"label={names.OWNED}")
    if run(["docker", "ps", "--all", "--quiet", *ours]).strip():
        run(["docker", "rm", "--force", "--volumes", NAME])


def _await_answer(host: str) -> None:
    deadline_s = time.monotonic() + _UP_S
    while not answers([ensure(CRANE), "catalog", host], timeout_s=5):
        if time.monotonic() > deadline_s:
            raise CannotContinueError(f"The registry did not answer; see `docker logs {NAME}`.")
        time.sleep(0.2)


def _image() -> str:
    """Return the image of the registry: crane, which serves one, and nothing else."""
    program = ensure(CRANE)
    tag = f"{_REPOSITORY}:{fingerprint(_RECIPE, files=[program])}"
    if not docker.has_image(tag):
        with tempfile.TemporaryDirectory(prefix="tandem-registry-") as context:
            shutil.copy2(program, Path(context) / "crane")
            (Path(context) / "Dockerfile").write_text(_RECIPE)
            run(["docker", "build", "--label", names.OWNED, "--tag", tag, context])
        docker.forget_older(_REPOSITORY, used={tag})
    return tag
