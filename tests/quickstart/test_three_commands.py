"""From nothing to the first token: a registry, a release, a bare cluster, and the README."""

import json
import socket
import time
from pathlib import Path

import pytest

from e2e.cluster import docker, names
from e2e.cluster.kind import KindCluster
from e2e.cluster.progress import run, say
from e2e.cluster.tools import ensure_tools
from e2e.quickstart.bare_cluster import bare_cluster
from e2e.quickstart.readme import commands, with_pool
from e2e.quickstart.registry import loopback_registry
from e2e.quickstart.shell import Line, run_commands
from release.order import Order, project_version
from release.steps import release

SAMPLE = names.ROOT / "manifests" / "samples" / "quickstart-cpu.yaml"
DOOR = 8080
LIMIT_S = 900.0


@pytest.mark.timeout(3600)
def test_three_commands_from_nothing_to_a_stream_of_tokens(tmp_path: Path) -> None:
    assert_free(DOOR)
    docker.ensure_engine()
    block = with_pool(commands((names.ROOT / "README.md").read_text()), SAMPLE.read_text())
    elsewhere, kubeconfig = tmp_path / "elsewhere", tmp_path / "kubeconfig"
    elsewhere.mkdir()
    began_s = time.monotonic()

    with loopback_registry() as registry:
        order = Order(project_version(), registry.host, push=True, trial=True)
        made = release(order, into=names.BUILD / "quickstart")
        # As the assets of a release are, so that SHA256SUMS holds for the downloaded files.
        assert all(path.is_file() for path in made.iterdir())
        with bare_cluster(kubeconfig) as cluster:
            registry.introduce_to(cluster)
            bare_s = time.monotonic()
            status, lines = run_commands(
                block,
                folder=elsewhere,
                environment={"REGISTRY": registry.host, "KUBECONFIG": str(kubeconfig)},
                timeout_s=LIMIT_S,
            )
            if status != 0:
                say(what_the_cluster_says(cluster))

    assert status == 0, "\n".join(line.text for line in lines[-20:])
    tokens = [line for line in lines if token_of(line)]
    assert len(tokens) > 1, lines
    assert lines[-1].text == "data: [DONE]" or lines[-2].text == "data: [DONE]"
    first_s = bare_s + tokens[0].seconds
    say(
        f"quickstart: {tokens[0].seconds:.0f} s from a bare cluster to the first token, "
        f"{first_s - began_s:.0f} s from nothing, release and cluster included"
    )


def assert_free(port: int) -> None:
    """Check that the port of the README's port-forward is free."""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is in use on this machine"


def token_of(line: Line) -> str:
    """Return the text that a line of the stream brings, if it is one and does."""
    if not line.text.startswith("data: {"):
        return ""
    [choice] = json.loads(line.text.removeprefix("data: "))["choices"] or [{}]
    return str(choice.get("delta", {}).get("content") or "")


def what_the_cluster_says(cluster: KindCluster) -> str:
    """Return the pods, pools and Events, for the reader of a failure."""
    kubectl = [ensure_tools()["kubectl"], "--kubeconfig", cluster.kubeconfig]
    asked = (
        ("get", "pods", "--all-namespaces", "--output=wide"),
        ("get", "ipool", "--all-namespaces", "--output=yaml"),
        ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
    )
    return "\n".join(run([*kubectl, *words]) for words in asked)
