"""The CustomResourceDefinition, made from the models: `python -m tandem_operator.api.crd`."""

import sys
from typing import Any

import yaml

from tandem_operator.api.rules import VALIDATIONS
from tandem_operator.api.structural import structural_schema
from tandem_operator.api.v1alpha1 import GROUP, KIND, PLURAL, VERSION
from tandem_operator.api.v1alpha1.pool import InferencePool, PoolSpec
from tandem_operator.api.v1alpha1.status import PoolStatus

_READY = '.status.conditions[?(@.type=="Ready")]'
_AVAILABLE = '.status.conditions[?(@.type=="Available")]'
_COLUMNS = (
    ("MODEL", ".spec.model.name", "Name that clients ask for", 0),
    ("PREFILL", ".status.prefill.summary", "Ready / desired prefill replicas", 0),
    ("DECODE", ".status.decode.summary", "Ready / desired decode replicas", 0),
    ("TTFT-P95", ".status.slo.ttft.p95", "95th percentile of the time to first token", 0),
    ("TPOT-P95", ".status.slo.tpot.p95", "95th percentile of the time per output token", 0),
    ("ATTAINMENT", ".status.slo.attainment", "Share of requests that kept both bounds", 0),
    ("GOODPUT/GPU", ".status.slo.goodputPerGPU", "Good requests per second and GPU held", 0),
    ("READY", f"{_READY}.status", "Whether the pool serves and this spec is rolled out", 0),
    ("REASON", f"{_READY}.reason", "Reason of the condition Ready", 0),
    ("AVAILABLE", f"{_AVAILABLE}.status", "Whether pods of any generation serve", 1),
    ("MODE", ".spec.scaling.mode", "What Tandem may do with replica counts", 1),
    ("ENDPOINT", ".status.endpoint", "URL of the API inside the cluster", 1),
    ("MESSAGE", f"{_READY}.message", "Message of the condition Ready", 1),
    ("DECISION", ".status.decision.reason", "Why the counts are what they are", 1),
)


def custom_resource_definition() -> dict[str, Any]:
    """The object as `kubectl apply --server-side` takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            # Uninstalling the chart must not delete every pool of the cluster.
            "annotations": {"helm.sh/resource-policy": "keep"},
            "labels": {"app.kubernetes.io/name": "tandem", "app.kubernetes.io/component": "crd"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["ipool"],
                "categories": ["tandem"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _printer_columns(),
                    "schema": {"openAPIV3Schema": _root_schema()},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


class _WithoutAliases(yaml.SafeDumper):
    """The same rule in two places is written twice, as people expect of a CRD."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render() -> str:
    """The definition as YAML, with the words where it comes from."""
    text = yaml.dump(
        custom_resource_definition(),
        Dumper=_WithoutAliases,
        sort_keys=False,
        width=100,
        allow_unicode=True,
    )
    return "# Made by `make crds` from operator/tandem_operator/api; edit the models.\n" + text


def _root_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": " ".join((InferencePool.__doc__ or "").split()),
        "required": ["spec"],
        VALIDATIONS: [rule.to_crd() for rule in InferencePool.rules],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(PoolSpec),
            # Without a status of any kind, a pool that no operator saw would count as done.
            "status": {"default": {}, **structural_schema(PoolStatus)},
        },
    }


def _printer_columns() -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = [
        {"name": name, "type": "string", "jsonPath": path, "description": words}
        | ({"priority": priority} if priority else {})
        for name, path, words, priority in _COLUMNS
    ]
    age = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return [*columns, age]


if __name__ == "__main__":
    sys.stdout.write(render())
