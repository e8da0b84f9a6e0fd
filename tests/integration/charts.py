"""Shared parts of the charts' tests: helm, rendered objects, a namespace like the operator's."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.controlplane import ControlPlane
from manifests.generate import CHARTS, NAMESPACE, REGISTRY, helm_program
from tests.integration.operator_process import eventually

CHART = CHARTS / "tandem"
CRDS = CHARTS / "tandem-crds"
IMAGES = ("--set", f"global.imageRegistry={REGISTRY}")
# The kind comes from the chart tandem-crds.
APART = ("--set", "crds.enabled=false")
MONITORING = ("--api-versions", "monitoring.coreos.com/v1/ServiceMonitor")
RULES = (
    *("--api-versions", "monitoring.coreos.com/v1/PrometheusRule"),
    *("--set", "metrics.prometheusRule.enabled=true"),
)
VARIANTS = {
    "default": (),
    "two replicas": ("--set", "replicas=2"),
    "one namespace": ("--set", "watchNamespaces={team-a}"),
    "two replicas in one namespace": ("--set", "replicas=2,watchNamespaces={team-a}"),
    "two namespaces": ("--set", "watchNamespaces={team-b,team-a,team-b}"),
    "everything": (
        *(
            "--set",
            "replicas=2,networkPolicy.enabled=true,priorityClassName=system-cluster-critical",
        ),
        *("--set", "pools.admissionPolicy=true"),
        *("--set", "imagePullSecrets={registry},podLabels.team=a,podAnnotations.note=b"),
        *("--set", "nodeSelector.disk=ssd,serviceAccount.annotations.role=c"),
        *MONITORING,
    ),
}

Objects = list[dict[str, Any]]


def run_helm(*words: str | Path, kubeconfig: Path | None = None) -> str:
    """Run helm; a failure raises with what it printed."""
    environment = os.environ | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
    result = subprocess.run(
        [helm_program(), *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=180,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return result.stdout


def render(*words: str, namespace: str = NAMESPACE, release: str = "tandem") -> Objects:
    """Return the chart's objects, with a registry unless `words` say another one."""
    text = run_helm("template", release, CHART, "--namespace", namespace, *IMAGES, *words)
    return objects_in(text)


def objects_in(text: str) -> Objects:
    """Return the objects of a rendered chart, read in C: eight times as fast as Python."""
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


def of_kind(objects: Objects, kind: str) -> Objects:
    """Return those of one kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def deployment(objects: Objects) -> dict[str, Any]:
    """Return the operator's Deployment."""
    [found] = of_kind(objects, "Deployment")
    return found


def container(objects: Objects) -> dict[str, Any]:
    """Return the operator's container."""
    [found] = deployment(objects)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def ensure_namespace(control_plane: ControlPlane, name: str) -> None:
    """Make a namespace that admits only restricted pods."""
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    control_plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(body))
    # Without it, which a controller makes, a pod of the namespace is refused.
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually(lambda: control_plane.request("GET", account))
