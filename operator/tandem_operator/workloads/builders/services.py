"""The objects around the pods: Services, ServiceAccounts, router rights, budgets, PodMonitor."""

import re

from tandem_contracts.names import (
    CONTROL_PORT,
    HTTP_PORT,
    POOL_LABEL,
    ROLE_LABEL,
    ROUTER_INTERNAL_PORT,
    ROUTER_SERVICE_PORT,
)
from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import labels_of, selector_of
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.world import Object

COMPONENTS = (*Role, ROUTER)
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]


def service_account(name: PoolName, component: str) -> Object:
    """Return a component's identity; only router pods get a token for it."""
    head = _head(name, "v1", "ServiceAccount", component)
    return head | {"automountServiceAccountToken": component == ROUTER}


def router_role(name: PoolName) -> Object:
    """Return the router's rights.

    It reads pods, their owners and its own settings, and writes nothing.
    """
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list", "watch"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name.child(ROUTER)],
            "verbs": _READ,
        },
    ]
    return _head(name, f"{_RBAC}/v1", "Role", ROUTER) | {"rules": rules}


def router_role_binding(name: PoolName) -> Object:
    """Return the binding that gives the router's ServiceAccount its Role."""
    subject = {
        "kind": "ServiceAccount",
        "name": name.child(ROUTER),
        "namespace": name.namespace,
    }
    return _head(name, f"{_RBAC}/v1", "RoleBinding", ROUTER) | {
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name.child(ROUTER)},
        "subjects": [subject],
    }


def engine_service(name: PoolName, role: Role) -> Object:
    """Return a headless Service: its clients choose a pod themselves."""
    ports = [_port("http", HTTP_PORT), _port("control", CONTROL_PORT)]
    spec = {"clusterIP": "None", "selector": selector_of(name, role), "ports": ports}
    return _head(name, "v1", "Service", role) | {"spec": spec}


def router_service(name: PoolName) -> Object:
    """Return the pool's endpoint."""
    ports = [_port("http", ROUTER_SERVICE_PORT)]
    spec = {"type": "ClusterIP", "selector": selector_of(name, ROUTER), "ports": ports}
    return _head(name, "v1", "Service", ROUTER) | {"spec": spec}


def router_internal_service(name: PoolName) -> Object:
    """Return the Service for metrics and arrivals of all router pods, also those not serving."""
    head = name.head(
        api_version="v1",
        kind="Service",
        child=name.router_internal,
        labels=labels_of(name, ROUTER),
    )
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": selector_of(name, ROUTER),
        "ports": [_port("metrics", ROUTER_INTERNAL_PORT)],
    }
    return head | {"spec": spec}


def disruption_budget(name: PoolName, component: str, *, keeps_last: bool) -> Object:
    """Return a component's budget: a node drain evicts one pod at a time, never the only pod.

    Tandem replaces an only pod by another one first, and then removes it. An eviction before that
    would make its ReplicaSet start one more pod, and the GPU budget may have no room for it.
    """
    spec = {
        "maxUnavailable": 0 if keeps_last else 1,
        # A pod that is not Ready serves no request, so it must not block a drain.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector_of(name, component)},
    }
    return _head(name, "policy/v1", "PodDisruptionBudget", component) | {"spec": spec}


def pod_monitor(name: PoolName) -> Object:
    """Return the PodMonitor by which a Prometheus Operator scrapes engines and routers."""
    role_of_pod = "__meta_kubernetes_pod_label_" + re.sub("[./-]", "_", ROLE_LABEL)
    engines = {"sourceLabels": [role_of_pod], "regex": "|".join(Role), "action": "keep"}
    head = name.head(
        api_version="monitoring.coreos.com/v1",
        kind="PodMonitor",
        child=name.name,
        labels=labels_of(name),
    )
    spec = {
        "selector": {"matchLabels": {POOL_LABEL: name.name}},
        "podTargetLabels": [POOL_LABEL, ROLE_LABEL],
        "podMetricsEndpoints": [
            # The router's port of this name serves clients.
            {"port": "http", "path": "/metrics", "interval": "5s", "relabelings": [engines]},
            {"port": "metrics", "path": "/metrics", "interval": "5s"},
        ],
    }
    return head | {"spec": spec}


def _head(name: PoolName, api_version: str, kind: str, component: str) -> Object:
    return name.head(
        api_version=api_version,
        kind=kind,
        child=name.child(component),
        labels=labels_of(name, component),
    )


def _port(port_name: str, port: int) -> Object:
    return {"name": port_name, "port": port, "targetPort": port_name, "protocol": "TCP"}
