"""From nothing to a Ready pool: the commands a user would type, in order."""

import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import names
from e2e.cluster.images import chart_values
from e2e.commands import apply, helm, kubectl, kubectl_json
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

OPERATOR_NAMESPACE = "tandem-system"
PROMETHEUS_NAMESPACE = "monitoring"
PROMETHEUS_URL = f"http://prometheus.{PROMETHEUS_NAMESPACE}.svc:9090"
IMAGES = names.BUILD / "images.env"
SAMPLE = names.ROOT / "manifests" / "samples" / "tiny-cpu.yaml"
DOOR = Path(__file__).with_name("door.yaml")


def cluster(*words: str) -> None:
    """Run a command of `python -m e2e.cluster`; it prints its own progress."""
    with cluster_beside(*words) as finish:
        finish()


@contextlib.contextmanager
def cluster_beside(*words: str) -> Iterator[Callable[[], None]]:
    """Run a command of `python -m e2e.cluster` beside the block, which may wait for its end.

    The yielded function waits for its end, and raises `CalledProcessError` if it failed.
    """
    command = [sys.executable, "-m", "e2e.cluster", *words]
    process = subprocess.Popen(
        command, cwd=names.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )

    def finish() -> None:
        if status := process.wait():
            raise subprocess.CalledProcessError(status, command)

    try:
        yield finish
    finally:
        process.terminate()
        process.wait()


def built_images() -> dict[str, str]:
    """Return the tags that `make images` built, each by its variable, such as `OPERATOR_IMAGE`."""
    lines = (line.partition("=") for line in IMAGES.read_text().splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in lines}


def install_operator(*, images: dict[str, str]) -> None:
    """Install both charts, or bring them up to date, and wait for the operator."""
    charts = names.ROOT / "charts"
    place = ["--namespace", OPERATOR_NAMESPACE, "--create-namespace"]
    helm("upgrade", "--install", "tandem-crds", str(charts / "tandem-crds"), *place)
    helm(
        *("upgrade", "--install", "tandem", str(charts / "tandem"), *place),
        *("--set", "crds.enabled=false", "--wait", "--timeout", "120s"),
        *_chart_values(images),
    )


def _chart_values(images: dict[str, str]) -> list[str]:
    values = chart_values(images)
    return [word for key in values for word in ("--set-json", f"{key}={json.dumps(values[key])}")]


def make_namespace(name: str) -> None:
    """Make a namespace in which only pods that need no privilege may run."""
    apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        }
    )


def sample_pool(
    *, namespace: str, images: dict[str, str], tpot_target: str | None = None
) -> dict[str, Any]:
    """Return the tiny sample on the images built here; `tpot_target` gives it another TPOT."""
    pool: dict[str, Any] = yaml.safe_load(SAMPLE.read_text())
    pool["metadata"]["namespace"] = namespace
    if tpot_target is not None:
        pool["spec"]["slo"]["tpot"] = {"target": tpot_target}
    return pool


@dataclass(frozen=True, slots=True)
class PodStart:
    """The time that one engine pod took from its creation to Ready."""

    pod: str
    role: Role
    seconds: float


def pod_starts(*, namespace: str, pool: str) -> list[PodStart]:
    """Return all Ready engine pods of a pool and their cold starts."""
    selector = f"tandem-inference.io/pool={pool},tandem-inference.io/role in (prefill,decode)"
    pods = kubectl_json("get", "pods", "-n", namespace, "-l", selector)["items"]
    return [
        PodStart(
            pod=pod["metadata"]["name"],
            role=Role(pod["metadata"]["labels"]["tandem-inference.io/role"]),
            seconds=(_time(ready) - _time(pod["metadata"]["creationTimestamp"])),
        )
        for pod in pods
        if (ready := _ready_since(pod)) is not None
    ]


def _ready_since(pod: dict[str, Any]) -> str | None:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return str(condition["lastTransitionTime"])
    return None


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def slo_in_force(*, namespace: str, pool: str) -> Slo:
    """Return the bounds that the pool's router judges by at this moment."""
    settings = kubectl_json("get", "configmap", "-n", namespace, f"{pool}-router")
    return Slo(**json.loads(settings["data"]["router.json"])["slo"])


def engine_key(*, namespace: str, pool: str) -> str:
    """Return the key that engines of a pool ask for; only its routers have it otherwise."""
    selector = f"tandem-inference.io/pool={pool}"
    [secret] = kubectl_json("get", "secrets", "-n", namespace, "-l", selector)["items"]
    return base64.b64decode(secret["data"]["key"]).decode()


def remove_pool(*, namespace: str) -> None:
    """Remove what an earlier run left, so that this one starts from its sample.

    No client waits for the answers of a run that is over, so its pods get no time to finish them.
    """
    gone = ("delete", "namespace", namespace, "--ignore-not-found")
    kubectl(*gone, "--wait=false")
    kubectl("delete", "pods", "--all", "-n", namespace, "--grace-period=1", "--wait=false")
    kubectl(*gone, "--wait", timeout_s=180.0)


def on_node(*words: str) -> str:
    """Run a command inside the cluster's only node."""
    return subprocess.run(
        ["docker", "exec", names.NODE, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
