"""The stand-in for an adapter of external metrics, in the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e import external_metrics
from e2e.cluster.images import REGISTRY
from e2e.commands import CommandError, apply, kubectl, kubectl_json
from e2e.pools import wait_until

METRIC = "wanted"
_NAMESPACE = "tandem-e2e-metrics"
_SERVICE, _PORT = "external-metrics", 8443


@contextmanager
def served(image: str) -> Iterator[None]:
    """Serve external metrics of this cluster while the block runs."""
    name = f"{external_metrics.VERSION}.{external_metrics.GROUP}"
    kubectl("delete", "namespace", _NAMESPACE, "--ignore-not-found", "--wait")
    try:
        apply({"apiVersion": "v1", "kind": "List", "items": _server(image)})
        wait_until(_is_reached, within_s=90.0, what="a Service that leads to its server")
        # Not before: an API server keeps a connection to whatever else answers at that address.
        apply(external_metrics.api_service(service=_SERVICE, namespace=_NAMESPACE, port=_PORT))
        kubectl("wait", "apiservice", name, "--for=condition=Available", "--timeout=110s")
        yield
    finally:
        # A group without a server keeps every namespace from going away.
        kubectl("delete", "apiservice", name, "--ignore-not-found")
        kubectl("delete", "namespace", _NAMESPACE, "--wait=false")
        rights = ("clusterrole,clusterrolebinding", external_metrics.READER)
        kubectl("delete", *rights, "--ignore-not-found")


def tell(count: int) -> None:
    """Have the stand-in's metric say so many."""
    proxy = f"services/https:{_SERVICE}:{_PORT}/proxy"
    path = f"/api/v1/namespaces/{_NAMESPACE}/{proxy}/values/{METRIC}/{count}"
    kubectl("create", "--raw", path, "-f", "/dev/null")


def _server(image: str) -> list[dict[str, Any]]:
    """Return a server of external metrics: it answers with the numbers that it was given."""
    labels = {"app": _SERVICE}
    place = {"name": _SERVICE, "namespace": _NAMESPACE}
    container = {
        "name": "server",
        "image": f"{REGISTRY}/{image}",
        "command": ["python", "/script/server.py", "/pki/apiserver.crt", "/pki/apiserver.key"],
        "args": [str(_PORT)],
        # The key of the node's API server spares one of its own; no client checks it.
        "securityContext": {"runAsUser": 0},
        "readinessProbe": {
            "httpGet": {"path": external_metrics.API, "port": _PORT, "scheme": "HTTPS"},
            "periodSeconds": 1,
        },
        "volumeMounts": [
            {"name": "script", "mountPath": "/script"},
            {"name": "pki", "mountPath": "/pki", "readOnly": True},
        ],
    }
    volumes = [
        {"name": "script", "configMap": {"name": _SERVICE}},
        {"name": "pki", "hostPath": {"path": "/etc/kubernetes/pki"}},
    ]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": place,
            "data": {"server.py": Path(external_metrics.__file__).read_text()},
        },
        # A bare pod would be refused until its namespace has a ServiceAccount.
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": place,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "volumes": volumes},
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": place,
            "spec": {"selector": labels, "ports": [{"port": _PORT}]},
        },
        *external_metrics.autoscalers_may_read(),
    ]


def _is_reached() -> bool:
    """Return whether the Service's address leads to the server, asked from the server's own pod."""
    address = kubectl_json("get", "service", _SERVICE, "-n", _NAMESPACE)["spec"]["clusterIP"]
    asks = (
        "import ssl, urllib.request as r;"
        f"r.urlopen('https://{address}:{_PORT}{external_metrics.API}', timeout=2,"
        " context=ssl._create_unverified_context())"
    )
    try:
        kubectl("exec", "-n", _NAMESPACE, f"deploy/{_SERVICE}", "--", "python", "-c", asks)
    except CommandError:
        return False
    return True
