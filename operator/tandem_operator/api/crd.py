"""The CustomResourceDefinitions, made from the models."""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tandem_operator.api.rules import VALIDATIONS
from tandem_operator.api.structural import structural_schema
from tandem_operator.api.v1alpha1 import GROUP, KIND, PLURAL, ROLE_KIND, ROLE_PLURAL, VERSION
from tandem_operator.api.v1alpha1.pool import InferencePool, PoolSpec
from tandem_operator.api.v1alpha1.pool_role import EFFECTIVE, PoolRole, PoolRoleSpec, PoolRoleStatus
from tandem_operator.api.v1alpha1.status import PoolStatus

_READY = '.status.conditions[?(@.type=="Ready")]'
_AVAILABLE = '.status.conditions[?(@.type=="Available")]'
# Characters of a schema that is short.
_ONE_LINE = 300
_Column = tuple[str, str, str, int]
_COLUMNS: tuple[_Column, ...] = (
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


_EFFECTIVE = f'.status.conditions[?(@.type=="{EFFECTIVE}")]'
_ROLE_COLUMNS: tuple[_Column, ...] = (
    ("ASKED", ".spec.replicas", "Replicas that an autoscaler or a person asks for", 0),
    ("REPLICAS", ".status.replicas", "Pods of the fleet", 0),
    ("RECOMMENDED", ".status.recommended", "Replicas that Tandem would set", 0),
    ("EFFECTIVE", f"{_EFFECTIVE}.status", "Whether the fleet gets what is asked for", 0),
    ("REASON", f"{_EFFECTIVE}.reason", "Reason of the condition Effective", 0),
    ("MESSAGE", f"{_EFFECTIVE}.message", "Message of the condition Effective", 1),
)
_HEAD = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"type": "object"},
}
_INTEGERS = frozenset({".spec.replicas", ".status.replicas", ".status.recommended"})


def custom_resource_definition() -> dict[str, Any]:
    """InferencePool as `kubectl apply --server-side` takes it."""
    return _definition(
        kind=KIND,
        plural=PLURAL,
        short_name="ipool",
        columns=_COLUMNS,
        schema=_root_schema(),
        subresources={"status": {}},
    )


def pool_role_definition() -> dict[str, Any]:
    """PoolRole: a kind has one scale subresource, so each role is an object of its own."""
    schema = {
        "type": "object",
        "description": " ".join((PoolRole.__doc__ or "").split()),
        "properties": {
            **_HEAD,
            "spec": structural_schema(PoolRoleSpec),
            "status": structural_schema(PoolRoleStatus),
        },
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return _definition(
        kind=ROLE_KIND,
        plural=ROLE_PLURAL,
        short_name="irole",
        columns=_ROLE_COLUMNS,
        schema=schema,
        subresources={"scale": scale, "status": {}},
    )


def _definition(
    *,
    kind: str,
    plural: str,
    short_name: str,
    columns: Iterable[_Column],
    schema: Mapping[str, Any],
    subresources: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            # Uninstalling the chart must not delete every pool of the cluster.
            "annotations": {"helm.sh/resource-policy": "keep"},
            "labels": {"app.kubernetes.io/name": "tandem", "app.kubernetes.io/component": "crd"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["tandem"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": _printer_columns(columns),
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }
            ],
        },
    }


class _Definition(yaml.SafeDumper):
    """Writes a short schema on one line, and the same rule in two places twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        node = super().represent_mapping(tag, mapping, flow_style)
        if len(json.dumps(mapping)) <= _ONE_LINE:
            node.flow_style = True
        return node


def definitions() -> Mapping[str, str]:
    """Each definition as YAML by its name, with the words where it comes from."""
    made = (custom_resource_definition(), pool_role_definition())
    return {each["metadata"]["name"]: _rendered(each) for each in made}


def _rendered(definition: Mapping[str, Any]) -> str:
    text = yaml.dump(
        definition,
        Dumper=_Definition,
        sort_keys=False,
        width=sys.maxsize,
        allow_unicode=True,
        # Indents were a fifth of the file.
        default_flow_style=None,
    )
    return "# Made by `make crds` from operator/tandem_operator/api; edit the models.\n" + text


def _root_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": " ".join((InferencePool.__doc__ or "").split()),
        "required": ["spec"],
        VALIDATIONS: [rule.to_crd() for rule in InferencePool.rules],
        "properties": {
            **_HEAD,
            "spec": structural_schema(PoolSpec),
            # Without a status of any kind, a pool that no operator saw would count as done.
            "status": {"default": {}, **structural_schema(PoolStatus)},
        },
    }


def _printer_columns(columns: Iterable[_Column]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {
            "name": name,
            "type": "integer" if path in _INTEGERS else "string",
            "jsonPath": path,
            "description": words,
        }
        | ({"priority": priority} if priority else {})
        for name, path, words, priority in columns
    ]
    age = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return [*made, age]
