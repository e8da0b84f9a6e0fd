"""A stand-in for an adapter of external metrics: it answers with the numbers that it was given.

HorizontalPodAutoscalers read `external.metrics.k8s.io` through an APIService. It needs the standard
library alone, so any image with Python runs it: `python external_metrics.py CERTIFICATE KEY PORT`.
"""

import json
import ssl
import sys
import threading
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API = f"/apis/{GROUP}/{VERSION}"
READER = "tandem-external-metrics-reader"


class ExternalMetrics(ThreadingHTTPServer):
    """Serves `values` by the name of the metric; POST `/values/NAME/VALUE` sets one."""

    daemon_threads = True

    def __init__(self, host: str, port: int, *, certificate: str, key: str) -> None:
        super().__init__((host, port), _Handler)
        self.values: dict[str, str] = {}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # Each connection shakes hands in its own thread, not in the one that accepts.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that only try the port."""


class _Handler(BaseHTTPRequestHandler):
    server: ExternalMetrics

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if path == API:
            return self._answer(
                {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": f"{GROUP}/{VERSION}",
                    "resources": [
                        {
                            "name": "externalmetrics",
                            "singularName": "",
                            "namespaced": True,
                            "kind": "ExternalMetricValueList",
                            "verbs": ["get"],
                        }
                    ],
                }
            )
        name = path.rpartition("/")[2]
        if not path.startswith(f"{API}/namespaces/") or name not in self.server.values:
            return self.send_error(HTTPStatus.NOT_FOUND)
        value = {
            "metricName": name,
            "metricLabels": {},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": self.server.values[name],
        }
        return self._answer(
            {
                "kind": "ExternalMetricValueList",
                "apiVersion": f"{GROUP}/{VERSION}",
                "metadata": {},
                "items": [value],
            }
        )

    def do_POST(self) -> None:
        folder, _, told = self.path.removeprefix("/").partition("/")
        name, _, value = told.partition("/")
        if folder != "values" or not value:
            return self.send_error(HTTPStatus.NOT_FOUND)
        self.server.values[name] = value
        return self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    def _answer(self, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        """Say nothing: an autoscaler asks every few seconds."""


def api_service(*, service: str, namespace: str, port: int) -> dict[str, Any]:
    """Return the APIService that sends the group's requests to a Service."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": {"name": service, "namespace": namespace, "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }


def autoscalers_may_read() -> list[dict[str, Any]]:
    """Return the right of Kubernetes' autoscalers to read the group, as every adapter grants it."""
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["get", "list"]}
    account = {
        "kind": "ServiceAccount",
        "name": "horizontal-pod-autoscaler",
        "namespace": "kube-system",
    }
    head = {"apiVersion": f"{rbac}/v1", "metadata": {"name": READER}}
    return [
        {**head, "kind": "ClusterRole", "rules": [rule]},
        {
            **head,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": READER},
            "subjects": [account],
        },
    ]


def autoscaler(name: str, *, target: str, metric: str, most: int) -> dict[str, Any]:
    """Return an HPA of a PoolRole that wants as many replicas as a metric says."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "tandem-inference.io/v1alpha1",
                "kind": "PoolRole",
                "name": target,
            },
            "minReplicas": 1,
            "maxReplicas": most,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": metric},
                        "target": {"type": "AverageValue", "averageValue": "1"},
                    },
                }
            ],
            # What a metric that is a count already needs no second damping of.
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


if __name__ == "__main__":
    given_certificate, given_key, given_port = sys.argv[1:]
    ExternalMetrics(
        "", int(given_port), certificate=given_certificate, key=given_key
    ).serve_forever()
